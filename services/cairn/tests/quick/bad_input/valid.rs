//! Valid requests of the public services; faults are put into these.

use cairn_proto::event as wire;
use cairn_proto::memory as memory_pb;
use cairn_proto::orchestrator as pb;
use prost::Message;

/// Valid requests of a method of the public services, encoded. `n` makes what must be unique;
/// `session` has a run that has ended. Empty if the method is not known here.
pub(crate) fn public(method: &str, n: usize, session: &str) -> Vec<Vec<u8>> {
    let session = session.to_owned();
    match method {
        "CreateSession" => one(&pb::CreateSessionRequest {
            session: format!("new-{n}"),
            request_id: format!("create-{n}"),
            title: "A title".to_owned(),
            time_to_live_ms: 86_400_000,
        }),
        "GetSession" => one(&pb::GetSessionRequest { session }),
        "ListSessions" => one(&pb::ListSessionsRequest {
            page_size: 1,
            filter: Some(filter()),
            order: pb::SessionOrder::Changed.into(),
            ascending: true,
            ..pb::ListSessionsRequest::default()
        }),
        "RenameSession" => one(&pb::RenameSessionRequest {
            session,
            title: "A title".to_owned(),
            request_id: format!("rename-{n}"),
        }),
        "DeleteSession" => one(&pb::DeleteSessionRequest {
            session: format!("gone-{n}"),
        }),
        "ForkSession" => one(&pb::ForkSessionRequest {
            session,
            at_seq: 1,
            request_id: format!("fork-{n}"),
            new_session: format!("forked-{n}"),
            title: "A title".to_owned(),
            go_on: true,
            accept_loss: true,
        }),
        "ImportSession" => import(n),
        "ExportSession" => one(&pb::ExportSessionRequest { session }),
        "StartRun" => vec![start_run(n, Some(plan())), start_run(n, None)],
        "ListRuns" | "ReleaseQuarantine" => one(&pb::ListRunsRequest { session }),
        "GetRun" => one(&pb::GetRunRequest { session, run: 1 }),
        "CancelRun" | "PauseRun" | "ResumeRun" | "SkipStep" => control(method, n, session),
        "ProposePlan" | "ApplyPlan" | "SendFeedback" => revisions(method, n, session),
        "WatchSession" => one(&pb::WatchSessionRequest {
            session,
            after_seq: 1,
            ..pb::WatchSessionRequest::default()
        }),
        "ListPending" => pending_lists(session),
        "Decide" => decisions(n, &session),
        _ => match of_api(method, n, &session) {
            found if found.is_empty() => tools(method, n, session),
            found => found,
        },
    }
}

/// Of the services in `cairn.api.v1`, each of which knows its own methods.
fn of_api(method: &str, n: usize, session: &str) -> Vec<Vec<u8>> {
    [
        super::valid_agents::agents(method, n),
        super::valid_hooks::hooks(method, n),
        super::valid_knowledge::knowledge(method, n),
        super::valid_pool::pool(method, n, session.to_owned()),
    ]
    .concat()
}

fn tools(method: &str, n: usize, session: String) -> Vec<Vec<u8>> {
    match method {
        "ListTools" | "ListRules" => vec![Vec::new()],
        "CallTool" => one(&pb::CallToolRequest {
            name: "read_file".to_owned(),
            arguments_json: "{}".to_owned(),
            request_id: format!("call-{n}"),
            approved: true,
        }),
        "AllowTool" => one(&pb::AllowToolRequest {
            name: "github".to_owned(),
            digest: String::new(),
        }),
        "ListApprovals" => one(&pb::ListApprovalsRequest { session }),
        "RevokeApproval" => one(&pb::RevokeApprovalRequest {
            session,
            grant: 1,
            request_id: format!("revoke-{n}"),
        }),
        _ => views(method, session),
    }
}

/// Of one session, and of all that a filter passes.
fn pending_lists(session: String) -> Vec<Vec<u8>> {
    let of_session = pb::ListPendingRequest {
        session,
        ..pb::ListPendingRequest::default()
    };
    let of_all = pb::ListPendingRequest {
        filter: Some(filter()),
        ..pb::ListPendingRequest::default()
    };
    vec![of_session.encode_to_vec(), of_all.encode_to_vec()]
}

/// Turns that the model answers at once, and what is said to them. Empty for other methods.
pub(crate) fn turns(method: &str, n: usize, session: &str) -> Vec<Vec<u8>> {
    let session = session.to_owned();
    let request_id = format!("{method}-{n}");
    let message = Some(cairn_engine::message::Message::user("Hello.").into());
    match method {
        "CancelTurn" => one(&pb::CancelTurnRequest {
            session,
            request_id,
            number: 1,
            reason: "not needed".to_owned(),
        }),
        "SendMessage" => one(&pb::SendMessageRequest {
            session,
            request_id,
            step: 1,
            message,
        }),
        "SubmitTurn" => one(&pb::SubmitTurnRequest {
            session,
            request_id,
            turn: Some(wire::SubmitTurn {
                context: "main".to_owned(),
                message,
                options: Some(options()),
                when_busy: wire::WhenBusy::Interrupt.into(),
                ..wire::SubmitTurn::default()
            }),
            after_seq: 0,
        }),
        _ => Vec::new(),
    }
}

fn options() -> wire::TurnOptions {
    let schema = wire::JsonSchema {
        name: "answer".to_owned(),
        schema_json: "{}".to_owned(),
    };
    wire::TurnOptions {
        temperature: Some(0.5),
        max_output_tokens: Some(100),
        response_format: Some(wire::ResponseFormat {
            format: Some(wire::response_format::Format::JsonSchema(schema)),
        }),
        tools: Some(wire::ToolNames {
            names: vec!["read_file".to_owned()],
        }),
        max_tool_turns: Some(0),
        when_full: wire::WhenFull::Refuse.into(),
        keep: wire::Keep::Complete.into(),
        at_limit: wire::AtLimit::Ask.into(),
        max_turns: Some(2),
    }
}

/// Passes nothing, and names no session.
fn filter() -> pb::SessionFilter {
    pb::SessionFilter {
        statuses: vec![pb::SessionStatus::Idle.into()],
        pending: vec![wire::WaitReason::Approval.into()],
        has_pending: true,
        agent: "agent".to_owned(),
        prefix: "a".to_owned(),
        changed_after_unix_ms: 1,
        changed_before_unix_ms: 2,
    }
}

/// The archive of a session in which nothing happened.
fn import(n: usize) -> Vec<Vec<u8>> {
    let created = wire::Event {
        at_unix_ms: 1,
        kind: Some(wire::event::Kind::SessionCreated(
            wire::SessionCreated::default(),
        )),
        ..Default::default()
    };
    one(&pb::ImportSessionRequest {
        start: Some(pb::ImportStart {
            session: format!("archived-{n}"),
            request_id: format!("import-{n}"),
            last_seq: 1,
            time_to_live_ms: 86_400_000,
            new_session: format!("imported-{n}"),
        }),
        events: vec![pb::ArchivedEvent {
            event: created.encode_to_vec().into(),
            blob: Vec::new().into(),
            ends: true,
        }],
        blobs: Vec::new(),
    })
}

/// Requests that show what there is.
fn views(method: &str, session: String) -> Vec<Vec<u8>> {
    match method {
        "GetPlan" => one(&pb::GetPlanRequest {
            session,
            run: 1,
            at_seq: 4,
            with_resources: true,
        }),
        "GetTree" => one(&pb::GetTreeRequest {
            session,
            run: 1,
            view: pb::TreeView::Text.into(),
            at_seq: 4,
        }),
        "GetReport" => one(&pb::GetReportRequest {
            session,
            run: 1,
            at_seq: 4,
        }),
        "GetExecutionLog" => one(&pb::GetExecutionLogRequest {
            session,
            after_seq: 1,
            max_entries: 1,
        }),
        "GetResult" => one(&pb::GetResultRequest {
            session,
            handle: "result-1".to_owned(),
        }),
        "GetState" => one(&pb::GetStateRequest { session, at_seq: 1 }),
        _ => session_memory(method, session),
    }
}

/// Requests that hold a run up.
fn control(method: &str, n: usize, session: String) -> Vec<Vec<u8>> {
    match method {
        "CancelRun" => one(&pb::CancelRunRequest {
            session,
            run: 1,
            reason: "enough".to_owned(),
            request_id: format!("cancel-{n}"),
        }),
        "PauseRun" => one(&pb::PauseRunRequest {
            session,
            run: 1,
            reason: "a while".to_owned(),
            request_id: format!("pause-{n}"),
        }),
        "ResumeRun" => one(&pb::ResumeRunRequest {
            session,
            run: 1,
            request_id: format!("resume-{n}"),
        }),
        _ => one(&pb::SkipStepRequest {
            session,
            run: 1,
            step: 1,
            reason: "done by hand".to_owned(),
            request_id: format!("skip-{n}"),
        }),
    }
}

fn one(message: &impl Message) -> Vec<Vec<u8>> {
    vec![message.encode_to_vec()]
}

/// A plan that uses every field.
pub(crate) fn plan() -> wire::Plan {
    let step = |id: &str, depends_on: &[&str]| wire::PlanStep {
        id: id.to_owned(),
        title: "look".to_owned(),
        description: "Look.".to_owned(),
        tool: Some(wire::ToolInvocation {
            name: "pure".to_owned(),
            arguments_json: "{}".to_owned(),
        }),
        depends_on: depends_on.iter().map(|&id| id.to_owned()).collect(),
        capabilities: Vec::new(),
        redo: 0,
        external_id: "T-17".to_owned(),
        note: "Be brief.".to_owned(),
    };
    wire::Plan {
        order: wire::Order::Graph.into(),
        steps: vec![step("b", &["a"]), step("a", &[])],
    }
}

/// Requests for another plan, with each way to say which.
fn revisions(method: &str, n: usize, session: String) -> Vec<Vec<u8>> {
    use pb::apply_plan_request::Change;
    use pb::propose_plan_request::Change as Proposed;
    let request_id = format!("{method}-{n}");
    let feedback = || "Look at docs, too.".to_owned();
    match method {
        "ProposePlan" => [Proposed::Plan(plan()), Proposed::Feedback(feedback())]
            .map(|change| {
                let request = pb::ProposePlanRequest {
                    session: session.clone(),
                    run: 1,
                    request_id: request_id.clone(),
                    expected_revision: 0,
                    change: Some(change),
                };
                request.encode_to_vec()
            })
            .into(),
        "ApplyPlan" => [
            Change::Plan(plan()),
            Change::RedoStep(1),
            Change::Proposal(1),
        ]
        .map(|change| {
            let request = pb::ApplyPlanRequest {
                session: session.clone(),
                run: 1,
                request_id: request_id.clone(),
                expected_revision: 0,
                change: Some(change),
            };
            request.encode_to_vec()
        })
        .into(),
        _ => one(&pb::SendFeedbackRequest {
            session,
            run: 1,
            request_id,
            feedback: feedback(),
        }),
    }
}

fn start_run(n: usize, plan: Option<wire::Plan>) -> Vec<u8> {
    let limits = wire::LimitOverrides {
        max_tool_turns: 2,
        max_turns: 2,
        max_parallel_steps: 2,
        max_own_revisions: 2,
        on_failure: wire::OnFailure::GoOn.into(),
        review_plan: true,
        max_tokens: 2,
        max_cost_nano_usd: 2,
        max_active_ms: 2,
        max_calls: 2,
        at_limit: wire::AtLimit::Ask.into(),
    };
    let run = wire::StartRun {
        goal: "Look.".to_owned(),
        plan,
        limits: Some(limits),
        external_id: "T-17".to_owned(),
        note: "Be brief.".to_owned(),
        ..wire::StartRun::default()
    };
    let request = pb::StartRunRequest {
        time_to_live_ms: 0,
        session: String::new(),
        request_id: format!("start-{n}"),
        run: Some(run),
    };
    request.encode_to_vec()
}

/// A plan whose steps wait for each other.
pub(crate) fn circular(n: usize) -> Vec<u8> {
    let mut plan = plan();
    plan.steps[1].depends_on = vec!["b".to_owned()];
    start_run(n, Some(plan))
}

fn decide(n: usize, session: &str, outcome: wire::settlement::Outcome) -> Vec<u8> {
    let request = pb::DecideRequest {
        session: session.to_owned(),
        pending_id: "question".to_owned(),
        settlement: Some(wire::Settlement {
            outcome: Some(outcome),
        }),
        request_id: format!("decide-{n}"),
    };
    request.encode_to_vec()
}

fn session_memory(method: &str, session: String) -> Vec<Vec<u8>> {
    match method {
        "SetMemory" => one(&memory_pb::SetMemoryRequest {
            session,
            key: "key".to_owned(),
            value: "value".to_owned(),
            metadata: [("name".to_owned(), "text".to_owned())].into(),
        }),
        "GetMemory" | "RemoveMemory" => one(&memory_pb::GetMemoryRequest {
            session,
            key: "key".to_owned(),
        }),
        "ClearMemory" | "ListMemory" | "SnapshotMemory" => {
            one(&memory_pb::ListMemoryRequest { session })
        }
        "WatchMemory" => one(&memory_pb::WatchMemoryRequest {
            session,
            after_seq: Some(1),
        }),
        _ => Vec::new(),
    }
}

fn decisions(n: usize, session: &str) -> Vec<Vec<u8>> {
    use wire::settlement::{Answer, Deny, Done, Outcome, Retry};
    let done = Done {
        output: "done".to_owned(),
    };
    let (reason, text) = ("no".to_owned(), "left".to_owned());
    let outcomes = [
        Outcome::Done(done),
        Outcome::Retry(Retry {}),
        Outcome::Deny(Deny { reason }),
        Outcome::Answer(Answer { text }),
    ];
    outcomes.map(|outcome| decide(n, session, outcome)).into()
}
