//! Every field of every request, with every fault that its type can have.
//!
//! The faults are made from the descriptors, so a new field or method is covered as soon as it is
//! there; a method without a valid request to begin with fails the test.

mod faults;
pub(crate) mod raw;
mod rules;
mod valid;
mod valid_agents;
mod valid_contexts;
mod valid_hooks;
mod valid_internal;
mod valid_knowledge;
mod valid_pool;
mod verdict;

use crate::support;
use cairn_memory::Memory;
use cairn_model::{ModelRegistry, Offline};
use cairn_proto::memory::journal_service_client::JournalServiceClient;
use cairn_proto::orchestrator as pb;
use cairn_rpc::{Exposure, Link, Principal, ServerBuilder, with_principal};
use faults::Must;
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MethodDescriptor, ServiceDescriptor};
use raw::{Answer, call};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::{chain, client, node, parts, start, tool_step, watch_to_end};
use tonic::Request;
use verdict::wrong;

/// What clients reach.
const PUBLIC: [&str; 7] = [
    "cairn.orchestrator.v1.OrchestratorService",
    "cairn.orchestrator.v1.ContextService",
    "cairn.memory.v1.SessionMemoryService",
    "cairn.api.v1.AgentService",
    "cairn.api.v1.HookService",
    "cairn.api.v1.KnowledgeService",
    "cairn.api.v1.PoolService",
];
/// More faults than these are not shown.
const SHOWN: usize = 60;

fn service(name: &str) -> ServiceDescriptor {
    let pool = DescriptorPool::decode(cairn_proto::DESCRIPTORS).expect("descriptors");
    let found = pool.get_service_by_name(name);
    found.unwrap_or_else(|| panic!("no service {name}"))
}

fn models() -> ModelRegistry {
    let mut models = ModelRegistry::new();
    models.insert("offline", Arc::new(Offline::new(Duration::ZERO)));
    models.set_default("offline").expect("a model");
    models
}

/// What was sent and what came back.
#[derive(Default)]
struct Tally {
    cases: usize,
    refused: usize,
    /// The slowest answer, and to what.
    slowest: (Duration, String),
    wrong: Vec<String>,
    /// Ids of sessions in answers.
    accepted: BTreeSet<String>,
}

impl Tally {
    fn take(&mut self, method: &MethodDescriptor, name: &str, must: &Must, answer: &Answer) {
        self.cases += 1;
        self.refused += usize::from(matches!(answer, Answer::Refused(_)));
        let service = method.parent_service();
        let is_public = PUBLIC.contains(&service.full_name());
        // Between services texts are data and messages may be larger, and what follows on a broken
        // stream is that it ends.
        let is_text = name.ends_with("NUL") || name.ends_with("5 MiB");
        let is_lax = is_text || method.is_client_streaming();
        let must = match is_public || !is_lax {
            true => must,
            false => &Must::Answer,
        };
        if let Some(fault) = wrong(method, must, is_public, answer) {
            self.wrong
                .push(format!("{} with {name}: {fault}", method.full_name()));
        }
        if let Answer::Message(Some(bytes)) = answer
            && ["CreateSession", "ForkSession", "ImportSession", "StartRun"]
                .contains(&method.name())
            && let Ok(answer) = pb::CreateSessionResponse::decode(bytes.clone())
        {
            self.accepted.insert(answer.session);
        }
    }

    fn check(self, what: &str) -> BTreeSet<String> {
        println!(
            "{what}: {} requests with faults, {} refused, {} in which the fault is allowed, \
             slowest answer {:?}",
            self.cases,
            self.refused,
            self.cases - self.refused,
            self.slowest
        );
        let count = self.wrong.len();
        let shown = &self.wrong[..count.min(SHOWN)];
        assert_eq!(count, 0, "answered wrongly:\n{}", shown.join("\n"));
        self.accepted
    }
}

/// Sends every fault to every method of a service; `valid` gives a method's valid requests.
async fn torment(
    tally: &mut Tally,
    link: &Link,
    service: &ServiceDescriptor,
    valid: impl Fn(&str, usize) -> Vec<Vec<u8>>,
) {
    for method in service.methods() {
        let (before, mut n) = (tally.cases, tally.cases);
        let count = valid(method.name(), n).len();
        assert!(count > 0, "no valid request for {}", method.full_name());
        for variant in 0..count {
            let whole = valid(method.name(), n).swap_remove(variant);
            let answer = call(link, &method, whole.clone()).await;
            check_baseline(&method, &answer);
            let is_public = PUBLIC.contains(&service.full_name());
            for fault in faults::of(&method.input(), &whole, is_public) {
                n += 1;
                let whole = valid(method.name(), n).swap_remove(variant);
                let message = DynamicMessage::decode(method.input(), whole.as_slice());
                let bytes = (fault.bytes)(&message.expect("a valid request"));
                let began = Instant::now();
                let answer = call(link, &method, bytes).await;
                let took = (began.elapsed(), format!("{} {}", method.name(), fault.name));
                tally.slowest = tally.slowest.clone().max(took);
                tally.take(&method, &fault.name, &fault.must, &answer);
            }
        }
        println!("  {}: {}", method.full_name(), tally.cases - before);
    }
}

/// Faults prove little if the request was refused before they were put in.
fn check_baseline(method: &MethodDescriptor, answer: &Answer) {
    // These need something that is open, or there; everything else is checked before that.
    let needs_more = [
        "AllowTool",
        "ApplyPlan",
        "BridgeContext",
        "CancelRun",
        "CancelTurn",
        "ConfirmWorkspaceFiles",
        "Decide",
        "DeleteSession",
        "DestroyContext",
        "GetBlob",
        "GetResult",
        "PauseRun",
        "ReadSkillFile",
        "ReleaseQuarantine",
        "ResumeRun",
        "RevokeApproval",
        "SkipStep",
        "Quarantine",
        "SendMessage",
        "SubmitTurn",
    ];
    if let Answer::Refused(status) = answer {
        let codes = [
            tonic::Code::FailedPrecondition,
            tonic::Code::NotFound,
            tonic::Code::Aborted,
        ];
        let is_fine = needs_more.contains(&method.name()) && codes.contains(&status.code());
        assert!(is_fine, "{} is not valid: {status:?}", method.full_name());
    }
    assert!(!matches!(answer, Answer::Late), "{}", method.full_name());
}

async fn sessions(link: &Link) -> BTreeSet<String> {
    let mut orchestrator = support::Client::new(link.clone());
    let mut found = BTreeSet::new();
    let mut page_token = String::new();
    loop {
        let request = pb::ListSessionsRequest {
            page_size: 1000,
            page_token,
            ..pb::ListSessionsRequest::default()
        };
        let page = orchestrator.list_sessions(request).await;
        let page = page.expect("a page").into_inner();
        found.extend(page.sessions.into_iter().map(|session| session.id));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return found;
        }
    }
}

/// Starts a run and waits for its end.
async fn finished_run(orchestrator: &mut support::Client, request_id: &str) -> String {
    let run = chain(vec![tool_step("pure"), tool_step("idempotent")]);
    let session = start(orchestrator, request_id, run).await;
    support::check_completed(&watch_to_end(orchestrator, &session, 0).await);
    session
}

#[tokio::test(flavor = "multi_thread")]
async fn the_public_services_answer_every_fault_clearly() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut parts = parts(folder.path(), models());
    parts.orchestrator.hook_addresses = vec![valid_hooks::ADDRESSES.to_owned()];
    let node = node(parts).await;
    let session = finished_run(&mut client(&node), "before").await;
    // Turns are runs: they have a session of their own, so that the other one's run stays the newest.
    let talk = finished_run(&mut client(&node), "talk").await;
    let mut tally = Tally::default();
    let valid = |method: &str, n| match (valid::turns(method, n, &talk), &session) {
        (found, _) if !found.is_empty() => found,
        (_, session) => match valid::public(method, n, session) {
            found if found.is_empty() => valid_contexts::contexts(method, n, session),
            found => found,
        },
    };
    for name in PUBLIC {
        torment(&mut tally, &node.link(), &service(name), valid).await;
    }
    circles_are_refused(&mut tally, &node.link()).await;
    let mut accepted = tally.check("public services");
    accepted.extend([session, talk]);
    let there = sessions(&node.link()).await;
    let unasked: Vec<_> = there.difference(&accepted).collect();
    assert!(
        unasked.is_empty(),
        "sessions that nobody was told of: {unasked:?}"
    );
    is_well(&node.link()).await;
    accepted.insert(finished_run(&mut client(&node), "after").await);
}

async fn circles_are_refused(tally: &mut Tally, link: &Link) {
    let service = service("cairn.orchestrator.v1.OrchestratorService");
    let mut methods = service.methods();
    let method = methods.find(|method| method.name() == "StartRun");
    let method = method.expect("StartRun");
    let answer = call(link, &method, valid::circular(1_000_000)).await;
    tally.take(&method, "a circle", &Must::Fail, &answer);
}

async fn is_well(link: &Link) {
    use tonic_health::pb::health_check_response::ServingStatus;
    use tonic_health::pb::health_client::HealthClient;
    let request = tonic_health::pb::HealthCheckRequest::default();
    let health = HealthClient::new(link.clone()).check(request).await;
    let status = health.expect("an answer").into_inner().status();
    assert_eq!(status, ServingStatus::Serving);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_internal_services_answer_every_fault_clearly() {
    let folder = tempfile::tempdir().expect("a folder");
    let parts = parts(folder.path(), models());
    let models = parts.models.clone();
    let memory: Memory = cairn_memory::build(parts.memory, parts.memory_deps).expect("a store");
    let builder = ServerBuilder::new(Exposure::Internal);
    let builder = memory.register_internal(builder);
    let memory = builder.build().await.expect("memory").link();

    let time = Arc::new(cairn_tools::MemoryTime::new(memory.clone()));
    let mut deps = cairn_tools::Deps::new(time);
    deps.tools = parts.more_tools;
    let tools = cairn_tools::build(parts.tools, deps).expect("tools");
    let builder = tools.register(ServerBuilder::new(Exposure::Internal));
    let tools = builder.build().await.expect("tools").link();

    let deps = cairn_executor::Deps {
        models: models.clone(),
        tools: tools.clone(),
    };
    let (executor, _) = cairn_executor::build(parts.executor, deps);
    let planner = cairn_planner::build(parts.planner, cairn_planner::Deps::new(models));
    let workers = ServerBuilder::new(Exposure::Internal)
        .register(executor, cairn_proto::DESCRIPTORS)
        .register(planner, cairn_proto::DESCRIPTORS);
    let workers = workers.build().await.expect("workers").link();

    let session = "there";
    let request = Request::new(valid_internal::session(session));
    let request = with_principal(request, &Principal::process());
    let mut journal = JournalServiceClient::new(memory.clone());
    journal.create_session(request).await.expect("a session");
    let mut tally = Tally::default();
    for (name, link) in [
        ("memory.v1.JournalService", &memory),
        ("memory.v1.OwnershipService", &memory),
        ("memory.v1.DocumentService", &memory),
        ("tools.v1.ToolsService", &tools),
        ("planner.v1.PlannerService", &workers),
        ("executor.v1.ExecutorService", &workers),
    ] {
        let service = service(&format!("cairn.{name}"));
        let short = service.name().to_owned();
        let valid = |method: &str, n| valid_internal::internal(&short, method, n, session);
        torment(&mut tally, link, &service, valid).await;
    }
    tally.check("internal services");
    is_well(&memory).await;
}
