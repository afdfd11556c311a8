//! The public service: convert, call, convert.

mod agents;
mod answers;
mod bounded;
mod commands;
mod contexts;
mod fork;
mod hooks;
mod import;
mod knowledge;
mod listing;
mod log;
mod messages;
mod pages;
mod plan_diff;
mod pool;
mod present;
mod results;
mod revisions;
mod sessions;
mod start_run;
mod streams;
mod tools;
mod turn_events;
mod turns;
mod views;

use self::bounded::respond;
use self::commands::{decide, reason, requests, skip_step};
use self::contexts::Feeds;
use self::present::{ms, run_message, run_of, session_message};
use crate::key::SessionKey;
use crate::requests::Requests;
use cairn_engine::command::{
    CancelRun, CancelTurn, PauseRun, RenameSession, ResumeRun, RevokeApproval,
};
use cairn_engine::event::EventKind;
use cairn_engine::limits::MAX_TITLE;
use cairn_engine::session::Session;
use cairn_proto::orchestrator as pb;
use cairn_proto::orchestrator::orchestrator_service_server::OrchestratorService;
use cairn_rpc::{RpcError, check_session_id, check_text, principal};
use std::sync::Arc;
use tonic::{Request, Response, Status, Streaming};

/// The public service.
#[derive(Debug, Clone)]
pub struct Orchestrator {
    requests: Arc<Requests>,
    feeds: Arc<Feeds>,
}

type Answer<T> = Result<Response<T>, Status>;

impl Orchestrator {
    pub(crate) fn new(requests: Arc<Requests>) -> Self {
        Self {
            requests,
            feeds: Arc::default(),
        }
    }

    async fn session(&self, key: &SessionKey) -> Result<Arc<Session>, RpcError> {
        Ok(self.requests.store().view(key).await?.session)
    }
}

/// The session that a request is about, in its caller's namespace.
fn key_of<T>(request: &Request<T>, session: &str) -> Result<SessionKey, RpcError> {
    let namespace = principal(request)?.namespace();
    check_session_id("session", session)?;
    Ok(SessionKey::new(namespace, session))
}

requests! {
    RenameSessionRequest(asked) -> RenameSessionResponse {
        command: {
            check_text("title", &asked.title, MAX_TITLE)?;
            RenameSession { title: asked.title }
        },
        response: EventKind::SessionRenamed(event) => pb::RenameSessionResponse {
            title: event.title,
        },
    }
    CancelRunRequest(asked) -> CancelRunResponse {
        command: CancelRun { run: asked.run, reason: reason(asked.reason)? },
        response: EventKind::RunCancelled(event) => pb::CancelRunResponse { run: event.run },
    }
    PauseRunRequest(asked) -> PauseRunResponse {
        command: PauseRun { run: asked.run, reason: reason(asked.reason)? },
        response: EventKind::RunPaused(event) => pb::PauseRunResponse { run: event.run },
    }
    ResumeRunRequest(asked) -> ResumeRunResponse {
        command: ResumeRun { run: asked.run },
        response: EventKind::RunResumed(event) => pb::ResumeRunResponse { run: event.run },
    }
    SkipStepRequest(asked) -> SkipStepResponse {
        command: skip_step(asked)?,
        response: EventKind::StepSkipped(event) => pb::SkipStepResponse {
            run: event.run,
            step: event.step.into(),
        },
    }
    CancelTurnRequest(asked) -> CancelTurnResponse {
        command: CancelTurn { number: asked.number, reason: reason(asked.reason)? },
        response: EventKind::QueuedTurnDropped(_) => pb::CancelTurnResponse {},
    }
    RevokeApprovalRequest(asked) -> RevokeApprovalResponse {
        command: RevokeApproval { grant: asked.grant },
        response: EventKind::ApprovalRevoked(_) => pb::RevokeApprovalResponse {},
    }
    DecideRequest(asked) -> DecideResponse {
        command: decide(asked)?,
        response: EventKind::Decided(event) => pb::DecideResponse {
            settle_after_unix_ms: ms(event.settle_after),
        },
    }
}

#[tonic::async_trait]
impl OrchestratorService for Orchestrator {
    async fn create_session(
        &self,
        request: Request<pb::CreateSessionRequest>,
    ) -> Answer<pb::CreateSessionResponse> {
        sessions::create_session(&self.requests, request).await
    }

    async fn get_session(
        &self,
        request: Request<pb::GetSessionRequest>,
    ) -> Answer<pb::GetSessionResponse> {
        let key = key_of(&request, &request.get_ref().session)?;
        let viewed = self.requests.store().view(&key).await?;
        let mut session = session_message(&key.id, &viewed.session, viewed.quarantine);
        session.journal_permille = viewed.journal_permille;
        if let Some(run) = &mut session.latest_run {
            answers::add(&self.requests, &key, run).await?;
            agents::mark_change(&self.requests, &key, run).await;
        }
        Ok(Response::new(pb::GetSessionResponse {
            session: Some(session),
        }))
    }

    async fn list_sessions(
        &self,
        request: Request<pb::ListSessionsRequest>,
    ) -> Answer<pb::ListSessionsResponse> {
        listing::sessions(&self.requests, request).await
    }

    async fn rename_session(
        &self,
        request: Request<pb::RenameSessionRequest>,
    ) -> Answer<pb::RenameSessionResponse> {
        commands::answered(&self.requests, request).await
    }

    async fn delete_session(
        &self,
        request: Request<pb::DeleteSessionRequest>,
    ) -> Answer<pb::DeleteSessionResponse> {
        sessions::delete_session(&self.requests, request).await
    }

    async fn fork_session(
        &self,
        request: Request<pb::ForkSessionRequest>,
    ) -> Answer<pb::ForkSessionResponse> {
        fork::session(&self.requests, request).await
    }

    async fn import_session(
        &self,
        request: Request<Streaming<pb::ImportSessionRequest>>,
    ) -> Answer<pb::ImportSessionResponse> {
        import::session(&self.requests, request).await
    }

    type ExportSessionStream = streams::Exported;

    async fn export_session(
        &self,
        request: Request<pb::ExportSessionRequest>,
    ) -> Answer<Self::ExportSessionStream> {
        let key = key_of(&request, &request.get_ref().session)?;
        let share = self.requests.readers.share();
        let exported = streams::export(self.requests.clone(), key, share.clone()).await?;
        Ok(respond(share, exported, 0, |_| 0))
    }

    async fn start_run(
        &self,
        request: Request<pb::StartRunRequest>,
    ) -> Answer<pb::StartRunResponse> {
        start_run::start_run(&self.requests, request).await
    }

    type SubmitTurnStream = turns::Turns;

    async fn submit_turn(
        &self,
        request: Request<pb::SubmitTurnRequest>,
    ) -> Answer<Self::SubmitTurnStream> {
        turns::submit(&self.requests, request).await
    }

    async fn cancel_turn(
        &self,
        request: Request<pb::CancelTurnRequest>,
    ) -> Answer<pb::CancelTurnResponse> {
        commands::answered(&self.requests, request).await
    }

    async fn send_message(
        &self,
        request: Request<pb::SendMessageRequest>,
    ) -> Answer<pb::SendMessageResponse> {
        turns::send_message(&self.requests, request).await
    }

    async fn get_run(&self, request: Request<pb::GetRunRequest>) -> Answer<pb::GetRunResponse> {
        let key = key_of(&request, &request.get_ref().session)?;
        let session = self.session(&key).await?;
        let mut run = run_message(run_of(&session, request.get_ref().run)?);
        answers::add(&self.requests, &key, &mut run).await?;
        agents::mark_change(&self.requests, &key, &mut run).await;
        Ok(Response::new(pb::GetRunResponse { run: Some(run) }))
    }

    async fn list_runs(
        &self,
        request: Request<pb::ListRunsRequest>,
    ) -> Answer<pb::ListRunsResponse> {
        let key = key_of(&request, &request.get_ref().session)?;
        let session = self.session(&key).await?;
        Ok(Response::new(pb::ListRunsResponse {
            runs: session.runs.summaries().map(run_message).collect(),
        }))
    }

    async fn cancel_run(
        &self,
        request: Request<pb::CancelRunRequest>,
    ) -> Answer<pb::CancelRunResponse> {
        commands::answered(&self.requests, request).await
    }

    async fn propose_plan(
        &self,
        request: Request<pb::ProposePlanRequest>,
    ) -> Answer<pb::ProposePlanResponse> {
        revisions::propose(&self.requests, request).await
    }

    async fn apply_plan(
        &self,
        request: Request<pb::ApplyPlanRequest>,
    ) -> Answer<pb::ApplyPlanResponse> {
        revisions::apply(&self.requests, request).await
    }

    async fn send_feedback(
        &self,
        request: Request<pb::SendFeedbackRequest>,
    ) -> Answer<pb::SendFeedbackResponse> {
        revisions::send_feedback(&self.requests, request).await
    }

    async fn pause_run(
        &self,
        request: Request<pb::PauseRunRequest>,
    ) -> Answer<pb::PauseRunResponse> {
        commands::answered(&self.requests, request).await
    }

    async fn resume_run(
        &self,
        request: Request<pb::ResumeRunRequest>,
    ) -> Answer<pb::ResumeRunResponse> {
        commands::answered(&self.requests, request).await
    }

    async fn skip_step(
        &self,
        request: Request<pb::SkipStepRequest>,
    ) -> Answer<pb::SkipStepResponse> {
        commands::answered(&self.requests, request).await
    }

    type WatchSessionStream = streams::Watched;

    async fn watch_session(
        &self,
        request: Request<pb::WatchSessionRequest>,
    ) -> Answer<Self::WatchSessionStream> {
        let key = key_of(&request, &request.get_ref().session)?;
        let asked = request.into_inner();
        let share = self.requests.readers.share();
        let watched = streams::watch(
            self.requests.clone(),
            key,
            asked.after_seq,
            asked.with_deltas,
            share.clone(),
        );
        let (watched, after_seq) = (watched.await?, asked.after_seq);
        Ok(respond(share, watched, after_seq, |it| it.seq))
    }

    async fn list_pending(
        &self,
        request: Request<pb::ListPendingRequest>,
    ) -> Answer<pb::ListPendingResponse> {
        listing::pending(&self.requests, request).await
    }

    async fn decide(&self, request: Request<pb::DecideRequest>) -> Answer<pb::DecideResponse> {
        commands::answered(&self.requests, request).await
    }

    async fn list_tools(
        &self,
        request: Request<pb::ListToolsRequest>,
    ) -> Answer<pb::ListToolsResponse> {
        tools::list(&self.requests, request).await
    }

    async fn call_tool(
        &self,
        request: Request<pb::CallToolRequest>,
    ) -> Answer<pb::CallToolResponse> {
        tools::call(&self.requests, request).await
    }

    async fn allow_tool(
        &self,
        request: Request<pb::AllowToolRequest>,
    ) -> Answer<pb::AllowToolResponse> {
        tools::allow(&self.requests, request).await
    }

    async fn list_rules(
        &self,
        request: Request<pb::ListRulesRequest>,
    ) -> Answer<pb::ListRulesResponse> {
        tools::rules(&self.requests, request).await
    }

    async fn list_approvals(
        &self,
        request: Request<pb::ListApprovalsRequest>,
    ) -> Answer<pb::ListApprovalsResponse> {
        let key = key_of(&request, &request.get_ref().session)?;
        let session = self.session(&key).await?;
        Ok(Response::new(tools::approvals(&session)))
    }

    async fn revoke_approval(
        &self,
        request: Request<pb::RevokeApprovalRequest>,
    ) -> Answer<pb::RevokeApprovalResponse> {
        commands::answered(&self.requests, request).await
    }

    async fn release_quarantine(
        &self,
        request: Request<pb::ReleaseQuarantineRequest>,
    ) -> Answer<pb::ReleaseQuarantineResponse> {
        sessions::release_quarantine(&self.requests, request).await
    }

    async fn get_plan(&self, request: Request<pb::GetPlanRequest>) -> Answer<pb::GetPlanResponse> {
        views::plan(&self.requests, request).await
    }

    async fn get_tree(&self, request: Request<pb::GetTreeRequest>) -> Answer<pb::GetTreeResponse> {
        views::tree(&self.requests, request).await
    }

    async fn get_report(
        &self,
        request: Request<pb::GetReportRequest>,
    ) -> Answer<pb::GetReportResponse> {
        views::report(&self.requests, request).await
    }

    async fn get_execution_log(
        &self,
        request: Request<pb::GetExecutionLogRequest>,
    ) -> Answer<pb::GetExecutionLogResponse> {
        log::page(&self.requests, request).await
    }

    type GetResultStream = results::Parts;

    async fn get_result(
        &self,
        request: Request<pb::GetResultRequest>,
    ) -> Answer<Self::GetResultStream> {
        results::parts(&self.requests, request).await
    }

    async fn get_state(
        &self,
        request: Request<pb::GetStateRequest>,
    ) -> Answer<pb::GetStateResponse> {
        views::state(&self.requests, request).await
    }
}
