//! Plans that cannot be read: told back to the model once, and then a failure that says which.

use crate::service::{Answer, GOOD, plan_as, plan_with, reply};
use cairn_engine::message::Message;
use cairn_engine::plan::{PlanDraft, StepDraft};
use cairn_model::{ChatReply, FinishReason};
use cairn_planner::{PlanParseError, PlanParser};
use cairn_proto::event::FailureKind;
use cairn_proto::planner::MakePlanResponse;
use std::sync::Arc;

/// Every fault of a plan: the answer, its reason, and what is said of it.
const FAULTS: [(&str, &str, &str); 20] = [
    ("I would rather not.", "BadJson", "no JSON object found"),
    (
        r#"{"steps":[{"description":"a"},]}"#,
        "BadJson",
        "bad JSON at line 1, column 31",
    ),
    ("{\"steps\":[{\"descr", "BadJson", "bad JSON at line 1"),
    (r#"{"plan":[]}"#, "MissingSteps", "missing 'steps' array"),
    (
        r#"{"steps":[]}"#,
        "NoSteps",
        "a plan needs at least one step",
    ),
    (
        r#"{"steps":"none"}"#,
        "WrongType",
        "'steps' must be an array",
    ),
    (
        r#"{"steps":[{"description":"a"},{"title":"B"}]}"#,
        "MissingDescription",
        "step 1 lacks 'description'",
    ),
    (
        r#"{"steps":[{"description":" "}]}"#,
        "EmptyField",
        "steps[0].description is empty",
    ),
    (
        r#"{"order":"graph","steps":[{"id":"","description":"a"}]}"#,
        "EmptyField",
        "steps[0].id is empty",
    ),
    (
        r#"{"order":"tree","steps":[{"description":"a"}]}"#,
        "UnknownOrder",
        "unknown order 'tree'",
    ),
    (
        r#"{"steps":[{"tool":"t"}]}"#,
        "MissingArguments",
        "step 0 has a 'tool' but no 'arguments'",
    ),
    (
        r#"{"steps":[{"description":"a","arguments":{}}]}"#,
        "ArgumentsWithoutTool",
        "step 0 has 'arguments' but no 'tool'",
    ),
    (
        r#"{"order":"graph","steps":[{"id":"a","description":"a"},{"id":"a","description":"b"}]}"#,
        "DuplicateId",
        "steps 0 and 1 have the same id 'a'",
    ),
    (
        r#"{"order":"graph","steps":[{"id":"a","description":"a","depends_on":["z"]}]}"#,
        "UnknownDependency",
        "step 0 depends on 'z', which is not a step",
    ),
    (
        r#"{"order":"graph","steps":[{"id":"a","description":"a","depends_on":["a"]}]}"#,
        "CircularDependency",
        "in a circle: a → a",
    ),
    (
        r#"{"order":"graph","steps":[{"id":"a","description":"a","depends_on":["b"]},{"id":"b","description":"b","depends_on":["a"]}]}"#,
        "CircularDependency",
        "in a circle: ",
    ),
    (
        r#"{"order":"chain","steps":[{"id":"a","description":"a"},{"description":"b","depends_on":["a"]}]}"#,
        "DependsOnInChain",
        "step 1 has 'depends_on' in a plan of order 'chain'",
    ),
    (
        r#"{"steps":[{"description":"a"},{"tool":"fly","arguments":{}}]}"#,
        "UnknownTool",
        "step 1 names the tool 'fly', which does not exist; available: s, t",
    ),
    (
        r#"{"steps":[{"description":"a"},{"tool":"step","arguments":{}}]}"#,
        "UnknownTool",
        "step 1 names the tool 'step', which is for models only; a plan cannot name it",
    ),
    (
        r#"{"steps":[{"description":"a","capabilities":["file_ops","A GPU"]}]}"#,
        "UnknownCapability",
        "step 0 needs the capability 'A GPU', which is no name of one; allowed: NAME or NAME>=LEVEL",
    ),
];

/// What a model is told of it: its steps are counted from 1, but for one that lacks its description.
fn for_model(said: &str) -> String {
    if said.ends_with("lacks 'description'") {
        return format!("{said} (counted from 0: steps[1])");
    }
    let said = said.replace("steps 0 and 1 ", "steps 1 and 2 ");
    let said = said.replace("step 1 ", "step 2 ");
    said.replace("step 0 ", "step 1 ")
}

#[tokio::test(start_paused = true)]
async fn every_fault_is_reported_back_once_and_a_mended_plan_counts() {
    for (bad, _, said) in FAULTS {
        let (response, requests) = plan_with(&[reply(bad), reply(GOOD)]).await;
        let plan = response.plan.expect("a plan");
        assert_eq!(plan.steps.len(), 2, "{bad}");
        assert_eq!(response.failure, None);
        assert_eq!(response.usage.expect("usage").model_calls, 2);
        let [first, second] = &requests[..] else {
            panic!("two questions: {requests:?}");
        };
        let (first, second) = (&first.messages, &second.messages);
        assert_eq!(second[..first.len()], first[..], "the history stays");
        let [answer, reported] = &second[first.len()..] else {
            panic!("the answer and what is wrong with it: {second:?}");
        };
        assert_eq!(**answer, Message::assistant(bad, Vec::new()));
        let said = for_model(said);
        assert!(
            reported.text().contains(&said),
            "{bad}: {}",
            reported.text()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_fault_that_stays_is_a_failure_that_says_which() {
    for (bad, reason, said) in FAULTS {
        let (response, requests) = plan_with(&[reply("{}"), reply(bad)]).await;
        assert_eq!(response.plan, None);
        let failure = response.failure.expect("a failure");
        assert_eq!(failure.kind(), FailureKind::PlanParse, "{bad}");
        assert_eq!(failure.reason, reason, "{bad}");
        assert!(failure.message.contains(said), "{bad}: {}", failure.message);
        assert!(!failure.recoverable);
        assert_eq!(requests.len(), 2, "told back once and no more");
    }
}

/// A plan whose second step needs this capability.
fn needs(capability: &str) -> String {
    format!(
        r#"{{"steps":[{{"description":"a","capabilities":["file_ops"]}},{{"title":"B","description":"b","capabilities":["{capability}"]}}]}}"#
    )
}

/// The capabilities that the steps of a plan name.
fn needed(response: MakePlanResponse) -> Vec<String> {
    assert_eq!(response.failure, None);
    let steps = response.plan.expect("a plan").steps.into_iter();
    steps.flat_map(|step| step.capabilities).collect()
}

#[tokio::test(start_paused = true)]
async fn an_unknown_capability_is_returned_once_with_those_that_there_are() {
    let (gpu, files) = (needs("gpu"), needs("web_search>=5"));
    let (response, requests) = plan_with(&[reply(&gpu), reply(&files)]).await;
    assert_eq!(needed(response), ["file_ops", "web_search>=5"]);
    let returned = requests[1].messages.last().expect("a message").text();
    let expected = "step 2 ('B') needs the capability 'gpu', which no resource has or whose tools this run may not \
                    use; there are: file_ops, web_search";
    assert!(returned.contains(expected), "{returned}");
}

/// Its step waits for such a resource.
#[tokio::test(start_paused = true)]
async fn a_plan_that_names_an_unknown_capability_again_stands() {
    for again in ["gpu", "tpu"] {
        let (first, second) = (needs("gpu"), needs(again));
        let (response, requests) = plan_with(&[reply(&first), reply(&second)]).await;
        assert_eq!(requests.len(), 2);
        assert_eq!(response.usage.expect("usage").model_calls, 2);
        assert_eq!(needed(response), ["file_ops", again]);
    }
}

/// A fault and an unknown capability are returned once each, in any order.
#[tokio::test(start_paused = true)]
async fn a_fault_takes_nothing_from_what_is_returned_for_a_capability() {
    let (gpu, none) = (needs("gpu"), r#"{"steps":[]}"#);
    for [first, second] in [[none, gpu.as_str()], [gpu.as_str(), none]] {
        let (response, _) = plan_with(&[reply(first), reply(second), reply(&gpu)]).await;
        assert_eq!(needed(response), ["file_ops", "gpu"]);
        let (response, _) = plan_with(&[reply(first), reply(second), reply(none)]).await;
        assert_eq!(response.failure.expect("a failure").reason, "NoSteps");
    }
}

#[tokio::test(start_paused = true)]
async fn without_any_capability_none_is_known() {
    let files = needs("file_ops");
    let answers = [reply(&files), reply(&files)];
    let (response, requests) = plan_as(&answers, |_, request| request.capabilities.clear()).await;
    assert_eq!(needed(response), ["file_ops", "file_ops"]);
    let returned = requests[1].messages.last().expect("a message").text();
    assert!(returned.contains("there are: none"), "{returned}");
}

fn ended(text: &str, finish: FinishReason) -> Answer {
    reply(text).map(|reply| ChatReply { finish, ..reply })
}

/// What came before the cut may look like a plan: the model has thought aloud, and the plan is missing.
#[tokio::test(start_paused = true)]
async fn a_cut_answer_is_no_plan() {
    let draft = format!("First a draft: {GOOD} Better: {{\"steps\":[{{\"descr");
    let cut = || ended(&draft, FinishReason::Length);
    let (response, requests) = plan_with(&[cut(), reply(GOOD)]).await;
    assert!(response.plan.is_some(), "the second answer is whole");
    let reported = requests[1].messages.last().expect("what is wrong").text();
    assert!(reported.contains("cut at the limit"), "{reported}");

    let (response, _) = plan_with(&[cut(), cut()]).await;
    assert_eq!(response.plan, None);
    let failure = response.failure.expect("a failure");
    assert_eq!(failure.kind(), FailureKind::Llm);
    assert_eq!(failure.reason, "reply_cut");
    assert_eq!(response.usage.expect("usage").model_calls, 2);
}

/// To ask again would cost as much and change nothing.
#[tokio::test(start_paused = true)]
async fn a_refusal_ends_planning_at_once() {
    let (response, requests) = plan_with(&[ended(GOOD, FinishReason::Refusal)]).await;
    assert_eq!(response.plan, None);
    let failure = response.failure.expect("a failure");
    assert_eq!(failure.kind(), FailureKind::Llm);
    assert_eq!(failure.reason, "refused");
    assert_eq!(requests.len(), 1);
}

/// Takes each line for a step that is no comment.
#[derive(Debug)]
struct Lines;

#[tonic::async_trait]
impl PlanParser for Lines {
    async fn parse(&self, text: &str) -> Result<PlanDraft, PlanParseError> {
        let is_step = |line: &&str| !line.trim().is_empty() && !line.starts_with('#');
        let steps = text.lines().filter(is_step);
        Ok(PlanDraft {
            steps: steps
                .map(|line| StepDraft {
                    description: line.trim().to_owned(),
                    ..StepDraft::default()
                })
                .collect(),
            ..PlanDraft::default()
        })
    }
}

#[tokio::test(start_paused = true)]
async fn another_parser_takes_the_place_of_the_reference() {
    let (response, requests) = plan_as(&[reply("#"), reply("survey\n\nreport\n")], |deps, _| {
        deps.parser = Arc::new(Lines);
    })
    .await;
    let plan = response.plan.expect("a plan");
    let steps: Vec<&str> = plan
        .steps
        .iter()
        .map(|step| step.description.as_str())
        .collect();
    assert_eq!(steps, ["survey", "report"]);
    // What the parser lets through is still checked, and told back in the same way.
    let reported = requests[1].messages[3].text();
    assert!(reported.contains("at least one step"), "{reported}");
}

/// Does not work, whatever the text is.
#[derive(Debug)]
struct Broken;

#[tonic::async_trait]
impl PlanParser for Broken {
    async fn parse(&self, _: &str) -> Result<PlanDraft, PlanParseError> {
        Err(PlanParseError::ParserFailed {
            program: "parse.py".to_owned(),
            problem: "was ended by signal 9".to_owned(),
        })
    }
}

/// The model cannot mend it.
#[tokio::test(start_paused = true)]
async fn a_parser_that_does_not_work_ends_planning_at_once() {
    let (response, requests) = plan_as(&[reply(GOOD)], |deps, _| {
        deps.parser = Arc::new(Broken);
    })
    .await;
    assert_eq!((response.plan, requests.len()), (None, 1));
    let failure = response.failure.expect("a failure");
    assert_eq!(failure.kind(), FailureKind::Config);
    let message = "the plan parser 'parse.py' was ended by signal 9";
    assert_eq!(failure.message, message);
}
