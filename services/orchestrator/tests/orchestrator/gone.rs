//! Sessions that were deleted, as clients see them.

use crate::support::{World, chain, tool_step};
use cairn_proto::event as wire;
use cairn_proto::orchestrator as pb;
use cairn_rpc::{ErrorKind, RpcError};
use tonic::Status;

/// Sends a request about the session, and keeps how it was refused.
macro_rules! refused {
    ($world:ident.$client:ident, $found:ident, $($method:ident: $request:ident { $($field:ident: $value:expr),* }),* $(,)?) => {
        $(
            let request = pb::$request {
                session: "gone".to_owned(),
                $($field: $value,)*
                ..pb::$request::default()
            };
            let mut client = $world.$client.clone();
            let answer = $world.until(client.$method(request)).await.map(|_| ());
            $found.push((stringify!($method), answer));
        )*
    };
}

/// Every method that is about one session, but for DeleteSession, which can be repeated.
#[allow(
    clippy::needless_update,
    reason = "some requests name the session and nothing else"
)]
async fn all_refusals(world: &World) -> Vec<(&'static str, Result<(), Status>)> {
    let mut found = Vec::new();
    let plan = || chain(vec![tool_step("pure")]);
    let settlement = wire::Settlement {
        outcome: Some(wire::settlement::Outcome::Retry(wire::settlement::Retry {})),
    };
    let proposed = pb::propose_plan_request::Change::Feedback("another".to_owned());
    let change = pb::apply_plan_request::Change::RedoStep(1);
    refused!(
        world.client, found,
        get_session: GetSessionRequest {},
        create_session: CreateSessionRequest { request_id: world.request_id() },
        fork_session: ForkSessionRequest { request_id: world.request_id() },
        export_session: ExportSessionRequest {},
        start_run: StartRunRequest { request_id: world.request_id(), run: Some(plan()) },
        get_run: GetRunRequest {},
        list_runs: ListRunsRequest {},
        propose_plan: ProposePlanRequest { request_id: world.request_id(), change: Some(proposed) },
        apply_plan: ApplyPlanRequest { request_id: world.request_id(), change: Some(change) },
        rename_session: RenameSessionRequest { request_id: world.request_id() },
        send_feedback: SendFeedbackRequest {
            request_id: world.request_id(),
            feedback: "another".to_owned()
        },
        pause_run: PauseRunRequest { request_id: world.request_id() },
        resume_run: ResumeRunRequest { request_id: world.request_id() },
        skip_step: SkipStepRequest { request_id: world.request_id(), step: 1 },
        cancel_run: CancelRunRequest { request_id: world.request_id() },
        watch_session: WatchSessionRequest {},
        list_pending: ListPendingRequest {},
        decide: DecideRequest {
            request_id: world.request_id(),
            pending_id: "budget-1".to_owned(),
            settlement: Some(settlement)
        },
        release_quarantine: ReleaseQuarantineRequest {},
        get_plan: GetPlanRequest {},
        get_tree: GetTreeRequest {},
        get_report: GetReportRequest {},
        get_execution_log: GetExecutionLogRequest {},
        get_result: GetResultRequest { handle: "result-1".to_owned() },
        get_state: GetStateRequest {},
    );
    found.extend(refused_changes_of_contexts(world).await);
    found.extend(refused_reads_of_contexts(world).await);
    found
}

/// The same of all changes of contexts.
#[allow(
    clippy::needless_update,
    reason = "some requests name the session and nothing else"
)]
async fn refused_changes_of_contexts(world: &World) -> Vec<(&'static str, Result<(), Status>)> {
    let mut found = Vec::new();
    let context = || "side".to_owned();
    let create = wire::CreateContext {
        name: context(),
        ..wire::CreateContext::default()
    };
    let message = || {
        Some(wire::Message {
            role: wire::Role::User.into(),
            parts: vec![wire::part::Part::Text("hello".to_owned()).into()],
        })
    };
    let role = wire::Role::User.into();
    refused!(
        world.contexts, found,
        create_context: CreateContextRequest {
            request_id: world.request_id(),
            context: Some(create)
        },
        switch_context: SwitchContextRequest {
            request_id: world.request_id(),
            context: context()
        },
        destroy_context: DestroyContextRequest {
            request_id: world.request_id(),
            context: Some(wire::DestroyContext::default())
        },
        bridge_context: BridgeContextRequest {
            request_id: world.request_id(),
            bridge: Some(wire::BridgeContext::default())
        },
        append_message: AppendMessageRequest {
            request_id: world.request_id(),
            message: message()
        },
        extend_messages: ExtendMessagesRequest { request_id: world.request_id() },
        update_message: UpdateMessageRequest {
            request_id: world.request_id(),
            message: message()
        },
        insert_message: InsertMessageRequest {
            request_id: world.request_id(),
            message: message()
        },
        remove_message: RemoveMessageRequest { request_id: world.request_id() },
        pop_message: PopMessageRequest { request_id: world.request_id() },
        retain_messages: RetainMessagesRequest { request_id: world.request_id(), role: role },
        clear_messages: ClearMessagesRequest { request_id: world.request_id() },
        set_window: SetWindowRequest { request_id: world.request_id() },
        import_context: ImportContextRequest { request_id: world.request_id() },
    );
    found
}

/// The same of all that reads contexts.
#[allow(
    clippy::needless_update,
    reason = "some requests name the session and nothing else"
)]
async fn refused_reads_of_contexts(world: &World) -> Vec<(&'static str, Result<(), Status>)> {
    let mut found = Vec::new();
    let role = wire::Role::User.into();
    refused!(
        world.contexts, found,
        list_contexts: ListContextsRequest {},
        get_message: GetMessageRequest {},
        list_messages: ListMessagesRequest {},
        count_messages: CountMessagesRequest {},
        find_messages: FindMessagesRequest { role: role },
        estimate_tokens: EstimateTokensRequest {},
        export_context: ExportContextRequest {},
        watch_context: WatchContextRequest {},
    );
    found
}

#[tokio::test(start_paused = true)]
async fn every_request_about_a_deleted_session_is_answered_not_found() {
    let world = World::new().await;
    let create = pb::CreateSessionRequest {
        session: "gone".to_owned(),
        request_id: world.request_id(),
        ..pb::CreateSessionRequest::default()
    };
    let mut client = world.client.clone();
    world.until(client.create_session(create)).await.unwrap();
    let delete = pb::DeleteSessionRequest {
        session: "gone".to_owned(),
    };
    world.until(client.delete_session(delete)).await.unwrap();
    for (method, answer) in all_refusals(&world).await {
        let error = RpcError::from_status(&answer.expect_err(method));
        assert_eq!(error.kind(), ErrorKind::NotFound, "{method}: {error}");
        assert_eq!(error.reason_name(), "TERMINAL", "{method}: {error}");
        assert_eq!(error.metadata("end"), Some("deleted"), "{method}");
        assert_eq!(error.message(), "the session was deleted", "{method}");
    }
}

/// The state is called what the session is called.
#[tokio::test(start_paused = true)]
async fn the_state_of_a_session_has_the_title_that_the_session_has() {
    let world = World::new().await;
    let run = wire::StartRun {
        goal: "Count the files".to_owned(),
        ..chain(vec![tool_step("pure")])
    };
    let session = world.start(run).await;
    let mut client = world.client.clone();
    let state = pb::GetStateRequest {
        session: session.clone(),
        ..pb::GetStateRequest::default()
    };
    let state = client.get_state(state).await.unwrap().into_inner();
    let state: serde_json::Value = serde_json::from_str(&state.json).unwrap();
    let shown = client.get_session(pb::GetSessionRequest { session }).await;
    let shown = shown.unwrap().into_inner().session.unwrap();
    assert_eq!(state["session"]["title"], "Count the files");
    assert_eq!(shown.title, "Count the files");
    assert_eq!(world.listed(1).await[0].title, "Count the files");
}
