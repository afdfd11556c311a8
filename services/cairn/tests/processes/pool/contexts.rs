//! The agent context, as the API gives it and as a model's server receives it: byte for byte, by hand.

use super::{place, serve};
use crate::support::pool::{Desk, is_end, step_needing};
use crate::support::{Client, chain, talk};
use cairn_proto::api::{AgentContext, PoolSummary};
use cairn_proto::event as wire;

/// One executor and a registered resource. Nothing depends on what the machine can confine.
const SETTINGS: &str = r#"
[executor]
name = "executor-general"
max_attempts = 4

[tools.shell]
enabled = false
"#;

/// The pool of these settings. Whether a provider of searches is configured decides about `web_search`, and none is.
const POOL: &str = "\
## Current pool state
- Total: 2
- Available: 2
- Busy: 0
- Error: 0

## Available capabilities

| Capability | Available | Total | Available resource ids |
|------|-----------|---------|------------|
| file_ops | 1 | 1 | executor-general |
| code_generation | 1 | 1 | executor-general |
| report_generation | 1 | 1 | executor-general |
| gpu | 1 | 1 | gpu-1 |";

const WITH_ALL: &str = "

## Current task
- ID: step-1
- Description: Do first.
- Required capabilities: file_ops, gpu

## Orchestrator's note
Use both.
Allotted resources: executor-general, gpu-1";

const WITHOUT_NEEDS: &str = "

## Current task
- ID: step-2
- Description: Do second.

## Orchestrator's note
Of the run.
Allotted resources: executor-general";

const WITHOUT_NOTE: &str = "

## Current task
- ID: step-1
- Description: Do alone.
- Required capabilities: report_generation>=1

## Orchestrator's note
Allotted resources: executor-general";

/// A run of two steps: the first has a note and an id of its own, the second has those of the run.
fn run() -> wire::StartRun {
    let mut first = step_needing("first", &["file_ops", "gpu"]);
    first.external_id = "T-1".to_owned();
    first.note = "Use both.".to_owned();
    wire::StartRun {
        external_id: "R-1".to_owned(),
        note: "Of the run.".to_owned(),
        ..chain(vec![first, step_needing("second", &[])])
    }
}

/// The structure of a context without its time, its task and its note.
fn check_pool(context: &AgentContext) {
    assert!(context.time.is_some(), "{context:?}");
    let summary = PoolSummary {
        total: 2,
        available: 2,
        busy: 0,
        error: 0,
    };
    assert_eq!(context.pool, Some(summary));
    let names = ["file_ops", "code_generation", "report_generation", "gpu"];
    assert_eq!(context.available_capabilities, names);
    assert_eq!(context.capability_to_resources.len(), names.len());
    let gpu = &context.capability_to_resources["gpu"];
    assert_eq!(gpu.ids, ["gpu-1"]);
}

/// P1 and P2: the structure and the text of a context with a task, needs, an external id and a note, and without
/// each of them. The system prompt that a model receives is the prompt before, a blank line and that text.
#[test]
fn a_model_is_told_the_context_to_the_letter() {
    let desk = Desk::open();
    let mut place = place(&desk, SETTINGS);
    let api = serve(&mut place, &[]);
    api.put("gpu-1", "gpu", &["gpu"], 1);
    api.pool_until("a resource", |pool| pool.resources.len() == 2);

    let context = api.context("", 0);
    assert_eq!(context.text, POOL);
    let context = context.context.expect("a context");
    check_pool(&context);
    assert_eq!((&context.task, &context.orchestrator_note), (&None, &None));
    assert!(context.allotted_resources.is_empty(), "{context:?}");

    api.start("s", run());
    for (step, wanted) in [(1, WITH_ALL), (2, WITHOUT_NEEDS)] {
        let question = desk.next();
        let base = question.system.strip_suffix(&format!("\n\n{POOL}{wanted}"));
        let base = base.unwrap_or_else(|| panic!("step {step}: {}", question.system));
        let has_prompt = base.contains("Carrying out a step");
        assert!(has_prompt && !base.contains("Current pool state"), "{base}");
        question.done();
    }
    api.until("s", 0, is_end);
    for (step, wanted) in [(1, WITH_ALL), (2, WITHOUT_NEEDS)] {
        assert_eq!(api.context("s", step).text, format!("{POOL}{wanted}"));
    }
    check_structure(&api.context("s", 1).context.expect("a context"));
    let second = api.context("s", 2).context.expect("a context");
    let task = second.task.expect("a task");
    assert_eq!(task.external_id.as_deref(), Some("R-1"));
    assert!(task.required_capabilities.is_empty(), "{task:?}");
}

fn check_structure(context: &AgentContext) {
    check_pool(context);
    let task = context.task.as_ref().expect("a task");
    assert_eq!((&*task.id, &*task.description), ("step-1", "Do first."));
    assert_eq!(task.required_capabilities, ["file_ops", "gpu"]);
    assert_eq!(task.external_id.as_deref(), Some("T-1"));
    assert_eq!(context.orchestrator_note.as_deref(), Some("Use both."));
    assert_eq!(context.allotted_resources, ["executor-general", "gpu-1"]);
}

/// P2: a step without a note is told what is allotted, and a turn of a conversation the pool alone.
#[test]
fn a_step_without_a_note_and_a_turn_are_told_what_they_have() {
    let desk = Desk::open();
    let mut place = place(&desk, SETTINGS);
    let api = serve(&mut place, &[]);
    api.put("gpu-1", "gpu", &["gpu"], 1);
    api.pool_until("a resource", |pool| pool.resources.len() == 2);

    api.start(
        "s",
        chain(vec![step_needing("alone", &["report_generation>=1"])]),
    );
    let question = desk.next();
    let wanted = format!("\n\n{POOL}{WITHOUT_NOTE}");
    assert!(question.system.ends_with(&wanted), "{}", question.system);
    question.done();
    api.until("s", 0, is_end);
    let context = api.context("s", 1).context.expect("a context");
    let task = context.task.expect("a task");
    assert_eq!((task.external_id, context.orchestrator_note), (None, None));

    let mut client = Client::new(api.link());
    let (ended, system) = api.wait(async {
        talk::create(&mut client, "t").await;
        let turn = talk::to_end(&mut client, talk::request("t", "turn", "Hello."));
        let answer = tokio::task::spawn_blocking(move || {
            let question = desk.next();
            let system = question.system.clone();
            question.says("Hello.");
            system
        });
        tokio::join!(turn, answer)
    });
    assert_eq!(ended.expect("a turn").response(), "Hello.");
    let system = system.expect("an answer");
    assert!(system.ends_with(&format!("\n\n{POOL}")), "{system}");
}
