"""Pages of `karl-fast report`: one file of HTML that shows a log, a data set, a run, an experiment or a comparison.

```text
log_page, data_set_page, run_page, comparison_page -> Page -> document: page.html, page.css, page.js -> one file
rows: conversations, packed in blocks that the page opens when they are looked at
```
"""
