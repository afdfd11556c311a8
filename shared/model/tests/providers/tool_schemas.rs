//! Schemas of tools that providers refuse, as a table: `tool_schemas.json`.
//!
//! An entry has the schema of a tool as a server of tools lists it, and for each protocol what the model's
//! server must get: a `schema`, or none, and then `left_out` is a part of the reason that is logged. `note`
//! is a part of the description, which has what the schema cannot say; an empty note is none. `source` is a
//! public page that shows the form or the refusal, if one was found.

use crate::support::{Log, answer, anthropic, ask, assert_reason, fault, scripted};
use cairn_http::test_server::{Reply, TestServer};
use cairn_model::{ChatRequest, Model, OfferedTool};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::Arc;

const TABLE: &str = include_str!("tool_schemas.json");
const DESCRIPTION: &str = "Does it.";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    name: String,
    source: String,
    #[serde(default = "usual_name")]
    tool: String,
    schema: Value,
    openai: Expected,
    anthropic: Expected,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    schema: Option<Value>,
    note: Option<String>,
    left_out: Option<String>,
}

fn usual_name() -> String {
    "t".to_owned()
}

fn table() -> Vec<Form> {
    serde_json::from_str(TABLE).expect("a table of forms")
}

fn tool(name: &str, parameters: Value) -> OfferedTool {
    OfferedTool {
        name: name.to_owned(),
        description: DESCRIPTION.to_owned(),
        parameters,
    }
}

fn request(tools: impl IntoIterator<Item = OfferedTool>) -> ChatRequest {
    ChatRequest {
        tools: tools.into_iter().collect::<Arc<[OfferedTool]>>(),
        ..ask("x")
    }
}

/// The one tool of the last request, with its description and its schema.
fn sent(server: &TestServer) -> Option<(String, Value)> {
    let requests = server.requests();
    let body = &requests.last().expect("a request").body;
    let body: Value = serde_json::from_str(body).expect("JSON");
    let tool = body["tools"].get(0)?;
    let function = tool.get("function").unwrap_or(tool);
    let schema = function
        .get("parameters")
        .or(function.get("input_schema"))?;
    let description = function["description"].as_str().expect("a text");
    Some((description.to_owned(), schema.clone()))
}

impl Expected {
    fn differences(&self, sent: Option<(String, Value)>, log: &str) -> Vec<String> {
        let mut found = Vec::new();
        let schema = sent.as_ref().map(|(_, schema)| schema);
        if schema != self.schema.as_ref() {
            let shown = |schema: Option<&Value>| schema.map_or("none".to_owned(), Value::to_string);
            found.push(format!(
                "expected {}, got {}",
                shown(self.schema.as_ref()),
                shown(schema)
            ));
        }
        if let Some((description, _)) = sent {
            let note = description
                .strip_prefix(DESCRIPTION)
                .unwrap_or(&description);
            let fits = match self.note.as_deref() {
                None | Some("") => note.is_empty(),
                Some(part) => note.contains(part),
            };
            if !fits {
                found.push(format!("the note is {note:?}"));
            }
        }
        if let Some(reason) = &self.left_out
            && !log.contains(reason)
        {
            found.push(format!("{reason:?} is not in the log: {log}"));
        }
        if self.left_out.is_none() && log.contains("left out") {
            found.push(format!("it is logged: {log}"));
        }
        found
    }
}

/// The differences, and the log.
async fn observe(form: &Form) -> Vec<String> {
    let request = request([tool(&form.tool, form.schema.clone())]);
    let (log, _guard) = Log::listen();
    let (server, model) = scripted(vec![answer("ok")]).await;
    model.chat(&request).await.expect("a reply");
    let mut found = form.openai.differences(sent(&server), &log.text());
    let (log, _guard) = Log::listen();
    let whole = json!({"content": [{"type": "text", "text": "ok"}], "stop_reason": "end_turn"});
    let (server, model) = anthropic(vec![Reply::json(200, whole.to_string())], |_| {}).await;
    model.chat(&request).await.expect("a reply");
    let of_anthropic = form.anthropic.differences(sent(&server), &log.text());
    found.extend(
        of_anthropic
            .into_iter()
            .map(|it| format!("anthropic: {it}")),
    );
    found
}

#[tokio::test]
async fn schemas_are_offered_as_the_table_expects() {
    let forms = table();
    let mut failed = Vec::new();
    for form in &forms {
        let found = observe(form).await;
        if !found.is_empty() {
            failed.push(format!("{}:\n    {}", form.name, found.join("\n    ")));
        }
    }
    assert!(
        failed.is_empty(),
        "{} of {} forms differ:\n{}",
        failed.len(),
        forms.len(),
        failed.join("\n")
    );
}

#[test]
fn the_table_has_enough_forms_and_their_sources() {
    let forms = table();
    assert!(forms.len() >= 30);
    let names: HashSet<&str> = forms.iter().map(|form| form.name.as_str()).collect();
    assert_eq!(names.len(), forms.len(), "names are unique");
    let with_source = forms.iter().filter(|form| !form.source.is_empty());
    assert!(with_source.count() >= 15);
}

#[tokio::test]
async fn a_tool_is_left_out_with_one_line_in_the_log() {
    let (log, _guard) = Log::listen();
    let (server, model) = scripted(vec![answer("ok")]).await;
    for _ in 0..3 {
        let tools = [tool("bad", json!(false)), tool("good", json!({}))];
        model.chat(&request(tools)).await.expect("a reply");
    }
    assert_eq!(log.text().matches("tool left out").count(), 1);
    assert!(sent(&server).is_some());
}

#[tokio::test]
async fn an_error_that_numbers_a_tool_names_it() {
    let tools = || {
        let names = ["first", "second", "third"];
        // It is not sent, and so has no number.
        let bad = [tool("bad", json!(false))];
        bad.into_iter()
            .chain(names.map(|name| tool(name, json!({}))))
    };
    for (message, expected) in [
        ("tools.1.custom.input_schema: no", Some("second")),
        ("Invalid 'tools[2].function.parameters'", Some("third")),
        (
            "Cannot find field at 'tools[0].function_declarations[1].parameters'",
            Some("second"),
        ),
        ("tools[3] is unknown", None),
        ("the tools are wrong", None),
        ("tools.x is wrong", None),
    ] {
        let (_server, model) = scripted(vec![fault(400, "invalid", message)]).await;
        let error = model.chat(&request(tools())).await.expect_err("refused");
        assert_reason(&error, "BadRequest");
        let shown = error.to_string();
        assert!(shown.contains(message), "{shown}");
        let names = ["bad", "first", "second", "third"];
        let named = names
            .into_iter()
            .find(|name| shown.contains(&format!("the tool {name};")));
        assert_eq!(named, expected, "{shown}");
    }
}
