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

#[test]
fn a_search_that_was_not_offered_is_an_unknown_tool() {
    let mut world = World::with_plan(chain(vec![model_step("a")]));
    let search = || tool_call("search_tools", &json!({ "query": "weather" }));
    let events = world.reply(1, "", &[search()]);
    let (output, is_error) = &World::reported(&events)[0];
    let (said, offered) = output.split_once("; there are: ").unwrap();
    assert!(
        *is_error && said == "there is no tool 'search_tools'",
        "{output}"
    );
    assert!(!offered.contains("search_tools"), "{output}");
}

/// An error names what the model sees: what can be found is no part of it before it is found.
#[test]
fn an_error_names_what_was_offered() {
    let mut world = World::with_plan(chain(vec![model_step("a")]));
    let facts = ToolFacts {
        deferred: Some(("Opens an issue.".to_owned(), "{}".to_owned())),
        ..ToolFacts::default()
    };
    world.tools.insert("gh__create_issue".to_owned(), facts);
    let fly = || tool_call("fly", &json!({}));
    let events = world.reply(1, "", &[fly()]);
    let output = World::reported(&events)[0].0.clone();
    assert!(
        output.contains("search_tools") && !output.contains("gh__"),
        "{output}"
    );
    let search = tool_call("search_tools", &json!({ "query": "issue" }));
    world.reply(1, "", &[search]);
    let events = world.reply(1, "", &[fly()]);
    let output = World::reported(&events)[0].0.clone();
    assert!(output.contains("gh__create_issue"), "{output}");
}
