//! First and last line of a run in stream-json.

use karl_log::conversation::offered;
use karl_log::json::reference_parser;
use serde_json::{Value, json};

use super::session::SessionMeta;
use crate::convert::json_type::{LIST, NUMBER, expect};
use crate::convert::lines::ObjectKeys;
use crate::convert::report::Made;
use crate::convert::settings::Rate;

/// Key of the cost of a run.
const COST: &str = "total_cost_usd";

impl SessionMeta {
    /// Read the first line of a run: the tools offered to the model.
    pub(super) fn start(&mut self, line: &[u8], made: &mut Made) {
        let Some([tools]) = ObjectKeys::new(&["tools"]).of(line) else { return };
        expect(tools, LIST, "tools", made);
        let Some(Value::Array(tools)) = tools.and_then(|tools| reference_parser::parse(tools).ok()) else {
            return;
        };
        match offered(tools.into_iter().map(tool).collect()) {
            Ok(tools) => self.tools = tools.or(self.tools.take()),
            Err(flaw) => made.note(flaw.name()),
        }
    }

    /// Read the last line of a run: its cost, and its reward if that is the result of the run.
    pub(super) fn end(&mut self, line: &[u8], rate: Rate, made: &mut Made) {
        let Some([subtype, is_error, cost]) = ObjectKeys::new(&["subtype", "is_error", COST]).of(line) else {
            return;
        };
        expect(cost, NUMBER, COST, made);
        if let Some(cost @ Value::Number(_)) = cost.and_then(|cost| reference_parser::parse(cost).ok()) {
            self.source.insert(COST.to_owned(), cost);
        }
        if rate == Rate::Result {
            self.reward = subtype.map(|subtype| ended_well(subtype, is_error));
        }
    }
}

/// Return 1 if the run ended without an error, else 0.
fn ended_well(subtype: &[u8], is_error: Option<&[u8]>) -> f64 {
    let well = subtype == b"\"success\"" && is_error != Some(b"true");
    f64::from(u8::from(well))
}

/// Return a tool with only its name, in the form of chat templates.
fn tool(tool: Value) -> Value {
    match tool {
        Value::String(name) => json!({"type": "function", "function": {"name": name}}),
        tool => tool,
    }
}
