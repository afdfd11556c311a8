//! What a change of a plan costs: the model is asked for what has changed and for what depends on it,
//! and for nothing else. The model counts what it is asked, outside of Cairn.

use crate::support::{self, CAIRN, served};
use cairn_proto::event::event::Kind;
use cairn_proto::orchestrator as pb;
use cairn_proto::orchestrator::StepFate;
use cairn_testkit::model_server::Answer;
use cairn_testkit::site::Running;
use cairn_testkit::{ModelServer, Site};
use serde_json::{Value, json};
use served::{Counts, SERVE, SESSION};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use support::Client;

const STEPS: usize = 20;
/// The step that somebody wants to be done otherwise.
const CHANGED: usize = 15;
/// What the model is asked without a step is a plan.
const PLAN: &str = "the plan";

fn name(step: usize) -> String {
    format!("Step {step:02}")
}

/// Steps for the model. In a graph each depends on the one five places before it: four rows of five.
fn plan(order: &str, changed: &str) -> Value {
    let steps = (1..=STEPS).map(|step| {
        let change = if step == CHANGED { changed } else { "" };
        let mut planned = json!({
            "id": name(step),
            "title": name(step),
            "description": format!("Do {}.{change}", name(step)),
        });
        if order == "graph" && step > 5 {
            planned["depends_on"] = json!([name(step - 5)]);
        }
        planned
    });
    json!({"order": order, "steps": steps.collect::<Vec<_>>()})
}

/// The steps that have to be done again when that one has changed.
fn touched(order: &str) -> Vec<usize> {
    match order {
        "graph" => vec![CHANGED, CHANGED + 5],
        _ => (CHANGED..=STEPS).collect(),
    }
}

/// The steps that can be done while that one is not.
fn before(order: &str) -> usize {
    match order {
        "graph" => STEPS - 2,
        _ => CHANGED - 1,
    }
}

struct World {
    asked: Arc<Counts>,
    /// The step that is to be changed gets no answer as it was.
    is_held: Arc<AtomicBool>,
    site: Site,
    _model: ModelServer,
}

fn world(order: &'static str) -> World {
    let (asked, is_held) = (
        Arc::new(Counts::default()),
        Arc::new(AtomicBool::new(false)),
    );
    let (counted, held) = (Arc::clone(&asked), Arc::clone(&is_held));
    let model = ModelServer::start(move |body| match served::title(body) {
        None => {
            counted.add(PLAN);
            // From here on it may answer: what was held was asked before.
            held.store(false, Ordering::SeqCst);
            served::planned(&plan(order, " Mind the year."))
        }
        Some(title) => {
            counted.add(&title);
            match title == name(CHANGED) && held.load(Ordering::SeqCst) {
                true => Answer::Hold,
                false => served::done(&title),
            }
        }
    });
    let site = Site::new(CAIRN);
    served::add_model(&site, &model);
    World {
        asked,
        is_held,
        site,
        _model: model,
    }
}

async fn begin(world: &World, order: &str) -> (Running, Client) {
    let server = world.site.start(&SERVE, &[]);
    let mut client = served::client(&world.site);
    served::start(&mut client, &plan(order, "")).await;
    (server, client)
}

async fn revise(client: &mut Client) -> pb::PlanDiff {
    let request = pb::SendFeedbackRequest {
        session: SESSION.to_owned(),
        request_id: "feedback".to_owned(),
        feedback: "mind the year".to_owned(),
        ..pb::SendFeedbackRequest::default()
    };
    let answer = client.send_feedback(request).await.expect("another plan");
    answer.into_inner().diff.expect("a diff")
}

/// How often the model was asked about steps.
fn total(asked: &BTreeMap<String, u32>) -> u32 {
    let steps = asked.iter().filter(|(what, _)| *what != PLAN);
    steps.map(|(_, times)| times).sum()
}

/// Panics unless each step was asked about once, the changed ones as often as this, and the plan once.
fn check_asked(asked: &BTreeMap<String, u32>, order: &str, times: impl Fn(usize) -> u32) {
    for step in 1..=STEPS {
        let expected = match touched(order).contains(&step) {
            true => times(step),
            false => 1,
        };
        let known = asked.get(&name(step)).copied().unwrap_or(0);
        assert_eq!(known, expected, "{order}: {} in {asked:?}", name(step));
    }
    assert_eq!(asked[PLAN], 1, "{asked:?}");
}

/// Panics unless that many steps are said to be reused, and what they cost to be saved.
fn check_diff(diff: &pb::PlanDiff, reused: usize) {
    let fates = diff.steps.iter().map(pb::NewStep::fate);
    let known = fates.filter(|fate| *fate == StepFate::Reused).count();
    assert_eq!(known, reused, "{diff:?}");
    let saved = diff.saved.as_ref().expect("what is saved");
    assert_eq!(saved.model_calls as usize, reused);
    assert_eq!(diff.saved_tool_turns as usize, reused);
    // What the server says that each reply takes.
    let tokens = (saved.input_tokens, saved.output_tokens);
    assert_eq!(tokens, (1000 * reused as u64, 100 * reused as u64));
}

async fn after_the_end(order: &'static str) {
    let world = world(order);
    let (_server, mut client) = begin(&world, order).await;
    served::wait_for(&mut client, SESSION, 1, served::is_completed).await;
    let first = total(&world.asked.so_far());
    assert_eq!(first as usize, STEPS);

    let diff = revise(&mut client).await;
    served::wait_for(&mut client, SESSION, 2, served::is_completed).await;
    let asked = world.asked.so_far();
    check_asked(&asked, order, |_| 2);
    check_diff(&diff, STEPS - touched(order).len());
    let again = total(&asked) - first;
    assert_eq!(again as usize, touched(order).len());
    println!(
        "{order}, finished, step {CHANGED} of {STEPS} changed: {first} questions before, {again} \
         afterwards and 1 for the plan; without what was kept {STEPS}"
    );
}

async fn in_the_middle(order: &'static str) {
    let world = world(order);
    world.is_held.store(true, Ordering::SeqCst);
    let (_server, mut client) = begin(&world, order).await;
    let is_done = |kind: &Kind| matches!(kind, Kind::StepCompleted(_));
    served::wait_for(&mut client, SESSION, before(order), is_done).await;
    // The question about the changed step is under way.
    world.asked.wait_for(&name(CHANGED), 1);
    let first = total(&world.asked.so_far());
    assert_eq!(first as usize, before(order) + 1);

    let diff = revise(&mut client).await;
    served::wait_for(&mut client, SESSION, 1, served::is_completed).await;
    let asked = world.asked.so_far();
    check_asked(&asked, order, |step| if step == CHANGED { 2 } else { 1 });
    check_diff(&diff, before(order));
    let again = total(&asked) - first;
    assert_eq!(again as usize, touched(order).len());
    println!(
        "{order}, at step {CHANGED} of {STEPS}, which is changed: {first} questions before, {again} \
         afterwards and 1 for the plan; without what was kept {STEPS}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_is_asked_again_from_the_change_on() {
    Box::pin(after_the_end("chain")).await;
    Box::pin(in_the_middle("chain")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_is_asked_again_only_where_the_change_counts() {
    Box::pin(after_the_end("graph")).await;
    Box::pin(in_the_middle("graph")).await;
}
