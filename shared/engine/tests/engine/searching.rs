//! Tools that a model is not offered from the start.

use crate::world::{World, chain, kinds, model_step, tool_call};
use cairn_engine::decide::ToolFacts;
use serde_json::json;

#[test]
fn a_search_finds_tools_that_are_not_offered_from_the_start() {
    let mut world = World::with_plan(chain(vec![model_step("a"), model_step("b")]));
    for (name, about) in [
        ("gh__create_issue", "Opens an issue."),
        ("gh__star", "Likes it."),
    ] {
        let deferred = Some((about.to_owned(), "{}".to_owned()));
        let facts = ToolFacts {
            deferred,
            ..ToolFacts::default()
        };
        world.tools.insert(name.to_owned(), facts);
    }
    let search = |query: &str| tool_call("search_tools", &json!({ "query": query }));
    let events = world.reply(1, "", &[search("create an issue")]);
    assert_eq!(
        kinds(&events),
        ["ReplyReceived", "ToolsFound", "CallFinished"]
    );
    let (output, is_error) = &World::reported(&events)[0];
    assert!(
        output.starts_with("gh__create_issue: Opens an issue."),
        "{output}"
    );
    assert!(!is_error && !output.contains("gh__star"), "{output}");
    let attempt = world.session.attempt(world.attempt(1)).unwrap();
    assert_eq!(attempt.found_tools, ["gh__create_issue"]);
    let events = world.reply(1, "", &[search("weather")]);
    assert_eq!(
        World::reported(&events)[0].0,
        "no further tool fits; try other words"
    );
}
