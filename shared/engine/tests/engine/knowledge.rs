//! The tools for knowledge: what they ask of the owner, which arguments they refuse, and which models may call them.

use crate::state_tools::{complaint, world};
use crate::turns::turn;
use crate::world::{World, chain, fold, kinds, model_step, tool_call};
use cairn_engine::agent::AgentDefinition;
use cairn_engine::command::{
    ChangeContext, Command, ContextOp, StartRun, SubmitTurn, SwitchAgent, TurnOptions,
};
use cairn_engine::decide::{Answer, Fork, Input, Question, Retrieve, SaveKnowledge, Scope};
use cairn_engine::event::CallRef;
use cairn_engine::outstanding::Work;
use cairn_engine::session::KNOWLEDGE_TOOLS;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What the owner is asked after this call.
fn asked(tool: &str, arguments: &Value) -> Question {
    let mut world = world();
    world.reply(1, "", &[tool_call(tool, arguments)]);
    let call = world.call(1, 0);
    assert!(world.outstanding().contains(&Work::Answer(call)));
    let question = world.session.question(call).expect("it waits");
    question.expect("its arguments are allowed")
}

fn searched(arguments: &Value) -> Retrieve {
    match asked("retrieve", arguments) {
        Question::Retrieve(asked) => asked,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_search_has_defaults() {
    let expected = Retrieve {
        query: "the port".to_owned(),
        scope: Scope::All,
        tags: Vec::new(),
        max: 5,
        min_score_permille: None,
    };
    assert_eq!(searched(&json!({"query": "the port"})), expected);
    let nulls = json!({
        "query": "the port", "scope": null, "tags": null, "max": null, "min_score": null,
    });
    assert_eq!(searched(&nulls), expected);
    let all = json!({
        "query": "the port", "scope": "knowledge", "tags": ["ops"], "max": 20, "min_score": 0.25,
    });
    let expected = Retrieve {
        scope: Scope::Knowledge,
        tags: vec!["ops".to_owned()],
        max: 20,
        min_score_permille: Some(250),
        ..expected
    };
    assert_eq!(searched(&all), expected);
}

/// Messages have no tags.
#[test]
fn tags_are_looked_for_in_pages_alone() {
    let with_tags = json!({"query": "port", "tags": ["ops"]});
    assert_eq!(searched(&with_tags).scope, Scope::Knowledge);
    let conversation = json!({"query": "port", "scope": "conversation"});
    assert_eq!(searched(&conversation).scope, Scope::Conversation);
    for (min_score, expected) in [(0.0, 0), (0.0004, 0), (0.3, 300), (1.0, 1000)] {
        let permille = searched(&json!({"query": "port", "min_score": min_score}));
        assert_eq!(permille.min_score_permille, Some(expected), "{min_score}");
    }
}

#[test]
fn a_page_is_saved_as_the_model_wrote_it() {
    let arguments = json!({"title": "Ports", "text": "# Ports\n\n17.", "tags": ["ops", "net"]});
    let Question::SaveKnowledge(page) = asked("save_knowledge", &arguments) else {
        panic!("another question");
    };
    let expected = SaveKnowledge {
        title: "Ports".to_owned(),
        text: "# Ports\n\n17.".to_owned(),
        tags: vec!["ops".to_owned(), "net".to_owned()],
    };
    assert_eq!(page, expected);
}

/// The complaints about these calls, each of which says what is allowed.
fn refused(tool: &str, cases: Vec<(Value, &str)>) {
    let mut world = world();
    world.session.runs.last_mut().unwrap().limits.max_tool_turns = 100;
    for (arguments, expected) in cases {
        let reported = complaint(&mut world, tool, &arguments);
        assert!(reported.contains(expected), "{arguments}: {reported}");
    }
}

#[test]
fn a_faulty_search_is_refused() {
    let (long, tags) = ("x".repeat(4_097), vec!["t"; 17]);
    let query = |name: &str, value: Value| json!({"query": "x", name: value});
    let cases = vec![
        (json!({}), "missing field `query`"),
        (json!({"query": " "}), "query has 1 bytes"),
        (json!({ "query": long }), "at most 4096 bytes"),
        (query("words", json!(1)), "unknown field `words`"),
        (query("max", json!(0)), "max is 0; allowed are 1 to 20"),
        (query("max", json!(21)), "max is 21; allowed are 1 to 20"),
        (query("max", json!(-1)), "wrong arguments for 'retrieve'"),
        (query("min_score", json!(1.01)), "a number from 0 to 1"),
        (query("min_score", json!("high")), "invalid type: string"),
        (query("scope", json!("web")), "scope 'web' is unknown"),
        (query("tags", json!([""])), "each of 1 to 64 bytes"),
        (query("tags", json!(tags)), "tags are at most 16"),
        (
            json!({"query": "x", "scope": "conversation", "tags": ["ops"]}),
            "messages have no tags",
        ),
    ];
    refused("retrieve", cases);
}

#[test]
fn a_faulty_page_is_refused() {
    let tags = vec!["t"; 17];
    let long = "x".repeat(200 * 1024 + 1);
    let titled = |title: &str| json!({"title": title, "text": "x"});
    let cases = vec![
        (json!({"title": "T"}), "missing field `text`"),
        (titled(""), "title is one line"),
        (titled("a\nb"), "title is one line"),
        (titled(&"t".repeat(257)), "1 to 256 bytes"),
        (json!({"title": "T", "text": "\n"}), "text has 1 bytes"),
        (json!({"title": "T", "text": long}), "at most 204800 bytes"),
        (
            json!({"title": "T", "text": "x", "tags": ["a\tb"]}),
            "one line",
        ),
        (
            json!({"title": "T", "text": "x", "tags": tags}),
            "at most 16",
        ),
    ];
    refused("save_knowledge", cases);
}

#[test]
fn an_answer_is_recorded_once() {
    let mut world = world();
    let page = json!({"title": "T", "text": "x"});
    world.reply(1, "", &[tool_call("save_knowledge", &page)]);
    let call = world.call(1, 0);
    let answer = || Answer::found("Saved as page call-1.".to_owned());
    let events = world.decide(Input::Answered {
        call,
        answer: answer(),
    });
    assert_eq!(kinds(&events), ["CallFinished"]);
    let answer = answer();
    assert!(world.decide(Input::Answered { call, answer }).is_empty());
    assert_eq!(world.folded(), world.session);
}

/// The id of a page follows from it: it is the same for each owner, and another one for each call.
#[test]
fn the_key_of_a_call_is_stable_and_its_own() {
    let mut world = world();
    let save = tool_call("save_knowledge", &json!({"title": "T", "text": "x"}));
    world.reply(1, "", &[save.clone(), save.clone()]);
    let key = |world: &World, session: &str, call: CallRef| {
        world.session.call_key("default", session, call)
    };
    let calls = [world.call(1, 0), world.call(1, 1)];
    let mut keys = BTreeSet::from(calls.map(|call| key(&world, "parent", call)));
    keys.insert(key(&world, "other", calls[0]));
    for call in calls {
        let answer = Answer::found("Saved.".to_owned());
        world.decide(Input::Answered { call, answer });
    }
    world.reply(1, "", &[save]);
    let open = world.call(1, 0);
    keys.insert(key(&world, "parent", open));
    assert_eq!(keys.len(), 4);
    assert!(keys.iter().all(|key| key.len() == 64));

    let first = key(&world, "parent", open);
    world.session = fold(&world.journal);
    assert_eq!(key(&world, "parent", open), first);
    // The parent may have saved the page: the call of a copy saves the same one.
    world.decide(Input::Forked(Fork {
        session: "parent".to_owned(),
        request_id: "request".to_owned(),
        principal: None,
        title: String::new(),
        continues: true,
    }));
    assert_eq!(key(&world, "child", open), first);
}

/// A world whose agent has this definition, in a run and in turns.
fn with_agent(agent: AgentDefinition) -> World {
    let mut world = World::new();
    let name = agent.name.clone();
    world
        .agents
        .0
        .insert(name.clone(), Ok(Some(Arc::new(agent))));
    world.command(Command::from(SwitchAgent {
        context: String::new(),
        agent: name,
    }));
    world
}

fn listing(tools: Option<&[&str]>, denied: &[&str]) -> AgentDefinition {
    let list = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    AgentDefinition {
        tools: tools.map(list),
        denied: list(denied),
        ..AgentDefinition::named("any")
    }
}

#[test]
fn an_agent_can_be_denied_both() {
    for tool in KNOWLEDGE_TOOLS {
        let mut world = with_agent(listing(None, &[tool]));
        world.command(Command::from(StartRun {
            goal: "the goal".to_owned(),
            plan: Some(chain(vec![model_step("one")])),
            agent: "any".to_owned(),
            ..StartRun::default()
        }));
        let attempt = world.attempt(1);
        for other in KNOWLEDGE_TOOLS {
            let offers = world.session.offers(attempt, other, &world.pool.grants);
            assert_eq!(offers, other != tool, "{other}");
        }
        let arguments = json!({"query": "x", "title": "T", "text": "x"});
        let events = world.reply(1, "", &[tool_call(tool, &arguments)]);
        let (text, is_error) = World::reported(&events).pop().expect("a result");
        assert!(is_error && text.contains(tool), "{text}");
        assert!(world.session.question(world.call(1, 0)).is_none());
    }
}

#[test]
fn a_list_names_a_tool_by_its_whole_name() {
    for (tools, options, names) in [
        (None, None, false),
        (Some(&["look", "retrieve"][..]), None, true),
        (Some(&["*"][..]), None, false),
        (Some(&["retriev*"][..]), None, false),
        (None, Some(&["retrieve"][..]), true),
        (None, Some(&["look"][..]), false),
        (Some(&["look"][..]), Some(&["retrieve"][..]), true),
    ] {
        let mut world = with_agent(listing(tools, &[]));
        let asked = options.map(|names: &[&str]| names.iter().map(|&it| it.to_owned()).collect());
        world.command(Command::from(SubmitTurn {
            options: TurnOptions {
                tools: asked,
                ..TurnOptions::default()
            },
            ..turn("hello")
        }));
        let attempt = world.attempt(1);
        let found = world.session.names_tool(attempt, "retrieve");
        assert_eq!(found, names, "{tools:?} {options:?}");
        assert!(!world.session.names_tool(attempt, "save_knowledge"));
    }
}

#[test]
fn a_turn_of_a_context_with_a_window_may_lack_messages() {
    let mut world = World::new();
    world.command(turn("first").into());
    assert!(!world.session.may_lack_messages(world.attempt(1)));
    world.reply(1, "well", &[]);
    world.command(Command::from(ChangeContext {
        ops: vec![ContextOp::SetWindow(Some(1))],
        ..ChangeContext::default()
    }));
    world.command(turn("second").into());
    let attempt = world.attempt(1);
    assert!(world.session.may_lack_messages(attempt));
    let unsent = world.session.unsent(attempt).expect("a conversation");
    let texts: Vec<_> = unsent.said_before_window().collect();
    let texts: Vec<&str> = texts.iter().map(|it| &*it.text).collect();
    assert_eq!(texts, ["first"]);

    let mut world = self::world();
    assert!(
        !world.session.may_lack_messages(world.attempt(1)),
        "a step has none"
    );
    let attempt = world.attempt(1);
    world.complete(1, "done");
    assert!(world.session.unsent(attempt).is_none(), "it is over");
}
