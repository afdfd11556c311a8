//! Capabilities that steps need, what operators grant, and what the pool lacks.

use crate::support::{
    Kind, World, chain, count, for_tenant, goal, graph, model_step, reply, tool_step,
};
use cairn_engine::event::{Event, ShortageKind};
use cairn_proto::api::{AgentGrant, GetPoolRequest, Resource, ResourceCapability};
use cairn_proto::event as wire;
use cairn_proto::memory as memory_pb;
use cairn_proto::memory::DocumentKind;
use cairn_proto::orchestrator as pb;
use cairn_proto::tools::{RuleAnswer, ToolRule};
use prost::Message as _;
use std::time::Duration;

fn needs(capability: &str) -> wire::PlanStep {
    wire::PlanStep {
        capabilities: vec![capability.to_owned()],
        ..model_step("think")
    }
}

async fn put(world: &World, kind: DocumentKind, id: &str, value: Vec<u8>) {
    let put = memory_pb::PutDocumentRequest {
        kind: kind.into(),
        id: id.to_owned(),
        value: value.into(),
        expected_version: None,
        operation_id: world.request_id(),
    };
    let stored = world.documents.clone().put_document(for_tenant(put)).await;
    stored.expect("stored");
    world.settle().await;
}

/// An operator registers a resource with a slot.
async fn register(world: &World, id: &str, capability: &str) {
    let resource = Resource {
        id: id.to_owned(),
        kind: "machine".to_owned(),
        capabilities: vec![ResourceCapability {
            name: capability.to_owned(),
            level: 1,
        }],
        slots: 1,
        ..Resource::default()
    };
    put(world, DocumentKind::Resource, id, resource.encode_to_vec()).await;
}

async fn grant(world: &World, document: &str, granted: &[&str], revoked: &[&str]) {
    let list = |tools: &[&str]| tools.iter().map(|&tool| tool.to_owned()).collect();
    let grant = AgentGrant {
        agent: String::new(),
        granted: list(granted),
        revoked: list(revoked),
    };
    put(world, DocumentKind::Grant, document, grant.encode_to_vec()).await;
}

/// The shortages in a journal.
fn shortages(events: &[Event]) -> Vec<ShortageKind> {
    let short = events.iter().filter_map(|event| match &event.kind {
        Kind::CapabilityShort(short) => Some(short.kind),
        _ => None,
    });
    short.collect()
}

/// The resources that attempts were placed in.
fn placements(events: &[Event]) -> Vec<Vec<String>> {
    let placed = events.iter().filter_map(|event| match &event.kind {
        Kind::AttemptPlaced(placed) => Some(placed.resources.clone()),
        _ => None,
    });
    placed.collect()
}

/// How many attempts wait for a capability; none if clients do not see it.
async fn waiting(world: &World, capability: &str) -> Option<u32> {
    let pool = world.pool.clone().get_pool(GetPoolRequest {}).await;
    let pool = pool.expect("an answer").into_inner().pool;
    let mut rows = pool.expect("a pool").capabilities.into_iter();
    let row = rows.find(|row| row.name == capability);
    row.map(|row| row.waiting)
}

fn is_short(kind: &Kind) -> bool {
    matches!(kind, Kind::CapabilityShort(_))
}

#[tokio::test(start_paused = true)]
async fn a_step_that_no_resource_can_serve_continues_once_one_is_registered() {
    let world = World::new().await;
    let session = world.start(chain(vec![needs("gpu")])).await;
    world.pass(Duration::from_secs(4)).await;
    assert!(shortages(&world.journal.events(&session).await).is_empty());
    world.seen(&session, is_short).await;
    world.settle().await;
    assert_eq!(world.run(&session).await.status(), pb::RunStatus::Waiting);
    assert!(world.other_attempts().await.is_empty());
    register(&world, "gpu-1", "gpu").await;
    let mut attempt = world.attempt().await;
    attempt.complete(0);
    assert!(attempt.settled().await);
    let events = world.ended(&session).await;
    assert_eq!(shortages(&events), [ShortageKind::None]);
    assert_eq!(count(&events, "CapabilityFound"), 1);
    assert_eq!(placements(&events), [["executor", "gpu-1"]]);
}

/// Work of other steps continues meanwhile, and the session stays with its owner.
#[tokio::test(start_paused = true)]
async fn a_shortage_of_one_step_delays_no_other() {
    let world = World::new().await;
    let steps = vec![needs("gpu"), model_step("other")];
    let session = world.start(graph(steps)).await;
    let mut other = world.attempt().await;
    world.seen(&session, is_short).await;
    other.complete(0);
    assert!(other.settled().await);
    world.slots.declare(&["gpu"]);
    let mut attempt = world.attempt().await;
    attempt.complete(0);
    assert!(attempt.settled().await);
    let events = world.ended(&session).await;
    assert_eq!(count(&events, "StepCompleted"), 2);
    assert_eq!(count(&events, "CapabilityFound"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_capability_that_is_taken_is_reported_after_a_second_and_keeps_its_place() {
    let world = World::new().await;
    world.slots.be_busy(true);
    world.settle().await;
    let session = world.start(chain(vec![needs("file_ops")])).await;
    world.pass(Duration::from_millis(750)).await;
    assert!(shortages(&world.journal.events(&session).await).is_empty());
    world.seen(&session, is_short).await;
    world.pass(Duration::from_secs(20)).await;
    assert_eq!(world.run(&session).await.status(), pb::RunStatus::Running);
    world.slots.be_busy(false);
    let mut attempt = world.attempt().await;
    attempt.complete(0);
    assert!(attempt.settled().await);
    let events = world.ended(&session).await;
    assert_eq!(shortages(&events), [ShortageKind::Busy]);
    assert_eq!(placements(&events), [["executor"]]);
    world.settle().await;
    let notices = world.slots.notices().into_iter();
    let notices: Vec<_> = notices
        .map(|notice| {
            let missing = notice.missing.clone().expect("what is missing");
            (missing.capability, missing.total, notice.kind())
        })
        .collect();
    let file_ops = || "file_ops".to_owned();
    let expected = [
        (file_ops(), 1, wire::ShortageKind::Busy),
        (file_ops(), 1, wire::ShortageKind::Unspecified),
    ];
    assert_eq!(notices, expected, "once for all, and once that it is over");
}

/// Others were faster, each time.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_refused_its_slot_is_not_reported_again() {
    let world = World::new().await;
    world.slots.be_busy(true);
    world.settle().await;
    let session = world.start(chain(vec![needs("file_ops")])).await;
    world.seen(&session, is_short).await;
    world.slots.refuse(3);
    world.slots.be_busy(false);
    let mut attempt = world.attempt().await;
    assert_eq!(world.slots.refused(), 3);
    attempt.complete(0);
    assert!(attempt.settled().await);
    let events = world.ended(&session).await;
    assert_eq!(shortages(&events), [ShortageKind::Busy]);
}

/// Its session sleeps. The next one that needs the same is reported anew.
#[tokio::test(start_paused = true)]
async fn a_shortage_ends_with_the_last_attempt_that_lacks_something() {
    let world = World::new().await;
    for _ in 0..2 {
        let session = world.start(chain(vec![needs("gpu")])).await;
        world.seen(&session, is_short).await;
        world.pass(Duration::from_secs(60)).await;
        assert_eq!(waiting(&world, "gpu").await, Some(1));
        let cancellation = world.cancellation(&session);
        let cancelled = world.client.clone().cancel_run(cancellation).await;
        assert!(cancelled.is_ok(), "{cancelled:?}");
        world.ended(&session).await;
        world.settle().await;
        assert_eq!(waiting(&world, "gpu").await, None);
    }
    let notices = world.slots.notices().into_iter();
    let kinds: Vec<_> = notices.map(|notice| notice.kind()).collect();
    let (none, ended) = (wire::ShortageKind::None, wire::ShortageKind::Unspecified);
    assert_eq!(kinds, [none, ended, none, ended]);
}

/// The loss of an executor is waited for in the queue.
#[tokio::test(start_paused = true)]
async fn a_step_without_a_need_waits_without_a_word() {
    let world = World::new().await;
    world.slots.be_busy(true);
    world.settle().await;
    let steps = vec![tool_step("pure"), model_step("think")];
    let session = world.start(graph(steps)).await;
    world.pass(Duration::from_secs(30)).await;
    assert!(shortages(&world.journal.events(&session).await).is_empty());
    world.slots.be_busy(false);
    let (one, other) = (world.attempt().await, world.attempt().await);
    drop((one, other));
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_no_executor_may_use_is_a_shortage() {
    let world = World::new().await;
    world.slots.set_tools(&["idempotent"]);
    world.settle().await;
    let session = world.start(chain(vec![tool_step("pure")])).await;
    let events = world.seen(&session, is_short).await;
    let missing = events.iter().find_map(|event| match &event.kind {
        Kind::CapabilityShort(short) => Some(short.missing.clone()),
        _ => None,
    });
    let missing = missing.expect("a shortage");
    assert_eq!(missing[0].capability, "");
    assert_eq!(missing[0].tools, ["pure"]);
    grant(&world, "executor:executor", &["pure"], &[]).await;
    let mut attempt = world.attempt().await;
    attempt.report_result(0, 0, "made");
    assert!(attempt.settled().await);
    world.ended(&session).await;
    assert_eq!(world.run(&session).await.status(), pb::RunStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_is_granted_counts_from_the_next_request() {
    let world = World::new().await;
    world.slots.set_tools(&["pure"]);
    world.settle().await;
    world.start(chain(vec![model_step("think")])).await;
    let mut attempt = world.attempt().await;
    let has = |tools: &[String], tool: &str| tools.iter().any(|it| it == tool);
    let tools = world.until(attempt.tools()).await;
    assert!(has(&tools, "pure") && has(&tools, "step") && !has(&tools, "effectful"));
    let before = attempt.start.catalogue.clone();
    grant(&world, "executor:executor", &["effectful"], &[]).await;
    let ack = world.until(attempt.ack()).await;
    assert!(!ack.catalogue.is_empty() && ack.catalogue != before);
    let tools = world.until(attempt.tools()).await;
    assert!(has(&tools, "effectful"), "{tools:?}");
    attempt.reply(reply(0, "", &[("effectful", "{}")]));
    let ack = world.until(attempt.ack()).await;
    assert_eq!(ack.permitted_calls.len(), 1, "{ack:?}");
    assert_eq!(ack.catalogue, "", "it is sent once");
}

#[tokio::test(start_paused = true)]
async fn a_call_of_a_tool_that_was_revoked_is_refused_at_once() {
    for document in ["agent:default", "executor:executor"] {
        let world = World::new().await;
        world.start(chain(vec![model_step("think")])).await;
        let mut attempt = world.attempt().await;
        grant(&world, document, &[], &["effectful", "step"]).await;
        attempt.reply(reply(0, "", &[("effectful", "{}")]));
        let results = async {
            loop {
                let ack = attempt.ack().await;
                assert!(ack.permitted_calls.is_empty(), "{ack:?}");
                if let Some(result) = ack.results.into_iter().next() {
                    return result;
                }
            }
        };
        let result = world.until(results).await;
        assert!(result.is_error, "{document}: {result:?}");
        // The step can still end.
        attempt.complete(1);
        assert!(world.until(attempt.settled()).await, "{document}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_whose_executor_loses_its_capability_continues_elsewhere() {
    let world = World::new().await;
    world.slots.declare(&["gpu"]);
    world.settle().await;
    let session = world.start(chain(vec![needs("gpu")])).await;
    let mut attempt = world.attempt().await;
    world.slots.declare(&[]);
    world.pass(Duration::from_secs(9)).await;
    assert!(attempt.is_held(), "it may come back");
    world.slots.declare(&["gpu"]);
    world.pass(Duration::from_secs(9)).await;
    assert!(attempt.is_held());
    world.slots.declare(&[]);
    world.pass(Duration::from_secs(11)).await;
    world.until(attempt.dropped()).await;
    world.seen(&session, is_short).await;
    world.slots.declare(&["gpu"]);
    let mut attempt = world.attempt().await;
    attempt.complete(0);
    assert!(attempt.settled().await);
    let events = world.ended(&session).await;
    assert_eq!(shortages(&events), [ShortageKind::None]);
    assert_eq!(count(&events, "AttemptPlaced"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_planner_is_given_the_capabilities_that_steps_may_name() {
    let world = World::new().await;
    register(&world, "gpu-1", "gpu").await;
    world.start(goal("plan this")).await;
    let asked = world.asked().await;
    let capabilities = ["file_ops", "shell_exec", "gpu"];
    assert_eq!(asked.request.capabilities, capabilities);
    let layers = asked.request.prompt_layers.join("\n");
    assert!(
        layers.contains("## Current pool state\n- Total: 2"),
        "{layers}"
    );
    assert!(
        layers.contains("by these names: file_ops, shell_exec, gpu."),
        "{layers}"
    );
    assert!(
        layers.contains("\n- file_ops: pure\n- shell_exec: effectful"),
        "{layers}"
    );
    assert!(!layers.contains("code_generation_tool"), "{layers}");
}

/// A step of a model that needs it would not have the tool.
#[tokio::test(start_paused = true)]
async fn a_planner_is_not_given_capabilities_whose_tools_the_run_may_not_use() {
    let world = World::new().await;
    world.tools.set_rules(vec![ToolRule {
        agent: "default".to_owned(),
        tool: "effectful".to_owned(),
        answer: RuleAnswer::Deny.into(),
        ..ToolRule::default()
    }]);
    world.pass(Duration::from_secs(3)).await;
    world.start(goal("plan this")).await;
    let asked = world.asked().await;
    assert_eq!(asked.request.capabilities, ["file_ops"]);
    let layers = asked.request.prompt_layers.join("\n");
    let words = "by these names: file_ops. A capability says which resources can";
    assert!(layers.contains(words), "{layers}");
    assert!(!layers.contains("effectful"), "{layers}");
}

/// Whatever was put aside is durable with what follows, and makes no transition of its own.
#[tokio::test(start_paused = true)]
async fn who_carries_out_a_tool_step_is_written_with_its_result() {
    let world = World::new().await;
    let session = world.start(chain(vec![tool_step("pure")])).await;
    let mut attempt = world.attempt().await;
    world.settle().await;
    let before = world.journal.events(&session).await;
    assert_eq!(count(&before, "AttemptPlaced"), 0);
    attempt.report_result(0, 0, "made");
    assert!(attempt.settled().await);
    let events = world.ended(&session).await;
    assert_eq!(placements(&events), [["executor"]]);
}
