//! Edits of files in tool calls, by the keys of their arguments: those of Claude Code, Codex, Gemini CLI,
//! Cursor, opencode, `OpenHands` and SWE-agent.

use std::collections::HashMap;

use serde_json::Value;

/// Keys of the edited file.
const PATHS: [&str; 8] = [
    "file_path",
    "filePath",
    "notebook_path",
    "absolute_path",
    "target_file",
    "path",
    "filename",
    "relative_workspace_path",
];

/// Keys of a whole new text, and of a text that takes the place of another.
const WRITTEN: [&str; 8] = [
    "content",
    "contents",
    "file_text",
    "fileText",
    "new_source",
    "code_edit",
    "streamContent",
    "file_content",
];
const NEW: [&str; 4] = ["new_string", "newString", "new_str", "replace"];

const OLD: [&str; 4] = ["old_string", "oldString", "old_str", "search"];

/// Keys of a patch in the form of Codex's `apply_patch`.
const PATCH: [&str; 2] = ["input", "patch"];

/// Edited file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EditedFile {
    /// Path as the call has it; empty if a command changes files that it does not name.
    pub(crate) path: String,
    pub(super) added: Vec<String>,
    pub(super) removed: Vec<String>,
    /// True if the file, or a folder of that name, is deleted.
    pub(super) deletes: bool,
}

impl EditedFile {
    /// Return an edit of a file with its new text.
    pub(super) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), added: text.lines().map(str::to_owned).collect(), ..Self::default() }
    }

    /// Return the deletion of a file, or of a folder.
    pub(super) fn deletion(path: &str) -> Self {
        Self { path: path.trim_end_matches('/').to_owned(), deletes: true, ..Self::default() }
    }

    /// Replace a text by another.
    fn replace(&mut self, old: &str, new: &str) {
        self.added.extend(added_lines(old, new));
        self.removed.extend(added_lines(new, old));
    }
}

/// Return the edits in the arguments of a tool call.
pub(crate) fn edits(arguments: &Value) -> Vec<EditedFile> {
    if let Some(patch) = text(arguments, &PATCH).filter(|patch| patch.contains(BEGIN)) {
        return patch_edits(patch);
    }
    let Some(path) = text(arguments, &PATHS) else { return Vec::new() };
    if let Some(whole) = text(arguments, &WRITTEN) {
        return vec![EditedFile::new(path, whole)];
    }
    let several = arguments.get("edits").and_then(Value::as_array);
    let all = several.map_or_else(|| vec![arguments], |edits| edits.iter().collect());
    let mut edit = EditedFile::new(path, "");
    let mut found = false;
    for part in all {
        if let Some(new) = text(part, &NEW) {
            edit.replace(text(part, &OLD).unwrap_or_default(), new);
            found = true;
        }
    }
    if found { vec![edit] } else { Vec::new() }
}

fn text<'v>(value: &'v Value, keys: &[&str]) -> Option<&'v str> {
    keys.iter().find_map(|key| value.get(key)?.as_str())
}

/// Return the lines of a text that another does not have, each as often as it has more of it.
fn added_lines(other: &str, text: &str) -> Vec<String> {
    let mut known: HashMap<&str, usize> = HashMap::new();
    other.lines().for_each(|line| *known.entry(line).or_default() += 1);
    let mut more = Vec::new();
    for line in text.lines() {
        match known.get_mut(line) {
            Some(count) if *count > 0 => *count -= 1,
            _ => more.push(line.to_owned()),
        }
    }
    more
}

/// First line of a patch.
const BEGIN: &str = "*** Begin Patch";

/// Return the edits of a patch in the form of `apply_patch`.
pub(super) fn patch_edits(patch: &str) -> Vec<EditedFile> {
    let mut files: Vec<EditedFile> = Vec::new();
    for line in patch.lines() {
        let heads = ["*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "];
        if let Some(path) = heads.iter().find_map(|head| line.strip_prefix(head)) {
            let deletes = line.starts_with("*** Delete File: ");
            files.push(EditedFile { deletes, ..EditedFile::new(path.trim(), "") });
        } else if let Some(file) = files.last_mut() {
            file.added.extend(line.strip_prefix('+').map(str::to_owned));
            file.removed.extend(line.strip_prefix('-').map(str::to_owned));
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn one(arguments: &Value) -> (String, Vec<String>) {
        let [edit] = &edits(arguments)[..] else { panic!("{arguments}") };
        (edit.path.clone(), edit.added.clone())
    }

    #[test]
    fn edits_of_every_tool_by_hand() {
        let wanted = ("a.py".to_owned(), vec!["x".to_owned(), "y".to_owned()]);
        for arguments in [
            json!({"file_path": "a.py", "content": "x\ny\n"}),
            json!({"file_path": "a.py", "old_string": "k\n", "new_string": "x\nk\ny"}),
            json!({"filePath": "a.py", "oldString": "", "newString": "x\ny"}),
            json!({"command": "str_replace", "path": "a.py", "old_str": "k", "new_str": "x\nk\ny"}),
            json!({"command": "create", "path": "a.py", "file_text": "x\ny"}),
            json!({"notebook_path": "a.py", "new_source": "x\ny", "cell_id": "c"}),
            json!({"file_path": "a.py", "edits": [{"old_string": "k", "new_string": "x"},
                {"old_string": "", "new_string": "y"}]}),
            json!({"input": "*** Begin Patch\n*** Update File: a.py\n@@\n-k\n+x\n k\n+y\n*** End Patch"}),
        ] {
            assert_eq!(one(&arguments), wanted, "{arguments}");
        }
    }

    #[test]
    fn a_line_is_new_as_often_as_it_is_added() {
        assert_eq!(added_lines("a\nb\na", "a\na\na\nb\nc"), ["a", "c"]);
        let [edit] = &edits(&json!({"file_path": "a", "old_string": "x\ny", "new_string": "y\nz"}))[..]
        else {
            panic!()
        };
        assert_eq!((&edit.added[..], &edit.removed[..]), (&["z".to_owned()][..], &["x".to_owned()][..]));
    }

    #[test]
    fn a_call_without_a_new_text_is_no_edit() {
        for arguments in
            [json!({"file_path": "a.py"}), json!({"path": "a", "pattern": "x"}), json!({}), json!(5)]
        {
            assert!(edits(&arguments).is_empty(), "{arguments}");
        }
    }
}
