//! What stream-json says of a run in its first line and in its last.

use serde_json::{Value, json};

use super::session::SessionMeta;
use crate::conversation::offered;
use crate::convert::json_type::{LIST, NUMBER, expect};
use crate::convert::lines::Keys;
use crate::convert::report::Made;
use crate::convert::settings::Rate;
use crate::json::reference;

/// What the run cost.
const COST: &str = "total_cost_usd";

impl SessionMeta {
    /// Takes the first line of a run: the tools that the model was offered.
    pub(super) fn start(&mut self, line: &[u8], made: &mut Made) {
        let Some([tools]) = Keys::new(&["tools"]).of(line) else { return };
        expect(tools, LIST, "tools", made);
        let Some(Value::Array(tools)) = tools.and_then(|tools| reference::parse(tools).ok()) else { return };
        self.tools = offered(tools.into_iter().map(tool).collect()).or(self.tools.take());
    }

    /// Takes the last line of a run: what it cost, and its reward where the end of the run is that.
    pub(super) fn end(&mut self, line: &[u8], rate: Rate, made: &mut Made) {
        let Some([subtype, is_error, cost]) = Keys::new(&["subtype", "is_error", COST]).of(line) else {
            return;
        };
        expect(cost, NUMBER, COST, made);
        if let Some(cost @ Value::Number(_)) = cost.and_then(|cost| reference::parse(cost).ok()) {
            self.source.insert(COST.to_owned(), cost);
        }
        if rate == Rate::Result {
            self.reward = subtype.map(|subtype| ended_well(subtype, is_error));
        }
    }
}

/// 1 where the run came to its end without an error, else 0.
fn ended_well(subtype: &[u8], is_error: Option<&[u8]>) -> f64 {
    let well = subtype == b"\"success\"" && is_error != Some(b"true");
    f64::from(u8::from(well))
}

/// A tool of which a run tells the name alone, as chat templates know it.
fn tool(tool: Value) -> Value {
    match tool {
        Value::String(name) => json!({"type": "function", "function": {"name": name}}),
        tool => tool,
    }
}
