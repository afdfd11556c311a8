//! A plan that names a capability which no resource has.

use super::serve;
use crate::support::place::Place;
use crate::support::pool::{Waits, waits_for_capability};
use crate::support::served::{add_model, done, planned, title};
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_testkit::{ModelServer, TestStore};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// Nothing depends on what the machine can confine.
const SETTINGS: &str = "\n[tools.shell]\nenabled = false\n";
/// What the planner is told of the capabilities that exist.
const NAMES: &str = "by these names: file_ops, code_generation, report_generation.";

/// The text of all messages of a request.
fn text(body: &Value) -> String {
    let messages = body["messages"].as_array().into_iter().flatten();
    let texts = messages.filter_map(|message| message["content"].as_str());
    texts.collect::<Vec<_>>().join("\n")
}

/// P3: a model that plans is told the pool and the names of all capabilities. A plan that names another one is
/// returned to it once, with what there is. If it names it again, the plan holds, and its step waits and says for
/// what. A resource that has it lets the run continue.
#[test]
fn a_plan_that_names_what_nobody_has_is_returned_once_and_then_waits() {
    let asked: Arc<Mutex<Vec<Value>>> = Arc::default();
    let noted = asked.clone();
    let model = ModelServer::start(move |body| match title(body) {
        Some(_) => done("done"),
        None => {
            noted.lock().expect("no panic").push(body.clone());
            let step = json!({"title": "go", "description": "Go.", "capabilities": ["teleport"]});
            planned(&json!({"steps": [step]}))
        }
    });
    let mut place = Place::over(TestStore::file());
    add_model(&place.site, &model);
    place.site.append("cairn.toml", SETTINGS);
    let api = serve(&mut place, &[]);
    let goal = wire::StartRun {
        goal: "Go there.".to_owned(),
        ..wire::StartRun::default()
    };
    api.start("s", goal);
    let events = api.until("s", 0, waits_for_capability);

    let requests = asked.lock().expect("no panic").clone();
    let [first, second] = &requests[..] else {
        panic!("{} requests for a plan", requests.len());
    };
    let first = text(first);
    assert!(
        first.contains("## Current pool state\n- Total: 1\n"),
        "{first}"
    );
    assert!(
        first.contains(NAMES) && !first.contains("teleport"),
        "{first}"
    );
    let repair = second["messages"].as_array().and_then(|all| all.last());
    let repair = repair.and_then(|last| last["content"].as_str());
    let repair = repair.expect("what is wrong");
    for part in [
        "teleport",
        "file_ops",
        "code_generation",
        "report_generation",
    ] {
        assert!(repair.contains(part), "{repair}");
    }

    let missing = events.iter().find_map(|(_, event)| match &event.kind {
        Some(Kind::CapabilityShort(short)) => short.missing.first(),
        _ => None,
    });
    let missing = missing.expect("a report");
    assert_eq!((&*missing.capability, missing.total), ("teleport", 0));
    let shown = place.site.run(&["pending", "s"]);
    assert!(shown.out.contains("teleport"), "{shown:?}");
    api.put("gate", "gate", &["teleport"], 1);
    let waits = Waits::checked(&api.until_end("s"));
    let counts = (waits.none, waits.found, waits.placed);
    assert_eq!(counts, (1, 1, 1), "{waits:?}");
}
