//! Requests that become a command of a session: one function for all, and one row for each.

use super::{Answer, key_of};
use crate::key::SessionKey;
use crate::requests::Requests;
use crate::requests::{Admission, Answer as Answered, submit_if};
use cairn_engine::command::{Command, Decide, Settlement, SkipStep};
use cairn_proto::convert::ConvertError;
use cairn_proto::orchestrator as pb;
use cairn_rpc::{RpcError, check_request_id, check_required_text, check_text, principal};
use std::sync::Arc;
use tonic::{Request, Response};

/// Most bytes of a reason or of a result that a person gives.
const MAX_REASON: usize = 1024;
const MAX_OUTPUT: usize = 48 * 1024;
/// Most patterns of an approval of further calls.
const MAX_CONDITIONS: usize = 16;
/// Most bytes of the name of a scope, which has a path at most.
const MAX_SCOPE: usize = 8 * 1024;

/// A request that becomes a command.
pub(super) trait CommandRequest: Sized {
    /// The id of its session.
    fn session(&self) -> &str;

    /// Names the request for retries.
    fn request_id(&self) -> &str;

    /// # Errors
    /// A field is wrong.
    fn into_command(self) -> Result<Command, RpcError>;
}

/// A command whose response follows from the event that answers it.
pub(super) trait AnsweredRequest: CommandRequest {
    /// What the client gets.
    type Response;

    /// `None` if the event answers another kind of command.
    fn response(answer: Answered) -> Option<Self::Response>;
}

/// Stores the command of a request, and waits for the event that answers it.
pub(super) async fn submitted<R: CommandRequest>(
    requests: &Arc<Requests>,
    request: Request<R>,
) -> Result<(SessionKey, Answered), RpcError> {
    submitted_if(Admission::without_reservation(), requests, request).await
}

/// The same for a request that may be refused: then only a repeat is answered.
pub(super) async fn submitted_if<R: CommandRequest>(
    admission: Admission,
    requests: &Arc<Requests>,
    request: Request<R>,
) -> Result<(SessionKey, Answered), RpcError> {
    let principal = principal(&request)?.clone();
    let key = key_of(&request, request.get_ref().session())?;
    let asked = request.into_inner();
    check_request_id("request_id", asked.request_id())?;
    let request_id = asked.request_id().to_owned();
    let answer = submit_if(
        admission,
        requests,
        &principal,
        &key,
        &request_id,
        asked.into_command()?,
    )
    .await?;
    Ok((key, answer))
}

/// Carries a request out whose answer is one event.
pub(super) async fn answered<R: AnsweredRequest>(
    requests: &Arc<Requests>,
    request: Request<R>,
) -> Answer<R::Response> {
    let (_, answer) = submitted(requests, request).await?;
    let response = R::response(answer).ok_or_else(contradiction)?;
    Ok(Response::new(response))
}

/// Takes the fields that all requests have, the command, and the response.
macro_rules! requests {
    ($($request:ident($asked:ident) -> $response:ident {
        command: $command:expr,
        response: $event:pat => $answer:expr $(,)?
    })*) => {$(
        $crate::grpc::commands::command_request!($request($asked) $command);

        impl $crate::grpc::commands::AnsweredRequest for cairn_proto::orchestrator::$request {
            type Response = cairn_proto::orchestrator::$response;

            fn response(answer: $crate::requests::Answer) -> Option<Self::Response> {
                match answer.event {
                    $event => Some($answer),
                    _ => None,
                }
            }
        }
    )*};
}

/// The same without a response.
macro_rules! command_request {
    ($request:ident($asked:ident) $command:expr) => {
        impl $crate::grpc::commands::CommandRequest for cairn_proto::orchestrator::$request {
            fn session(&self) -> &str {
                &self.session
            }

            fn request_id(&self) -> &str {
                &self.request_id
            }

            fn into_command(self) -> Result<cairn_engine::command::Command, cairn_rpc::RpcError> {
                let $asked = self;
                Ok($command.into())
            }
        }
    };
}
pub(super) use command_request;

pub(super) use requests;

pub(super) fn reason(reason: String) -> Result<String, RpcError> {
    check_text("reason", &reason, MAX_REASON)?;
    Ok(reason)
}

pub(super) fn skip_step(asked: pb::SkipStepRequest) -> Result<SkipStep, RpcError> {
    if asked.step == 0 {
        return Err(RpcError::invalid("step", "is 0").allowed("a step's number, from 1"));
    }
    Ok(SkipStep {
        run: asked.run,
        step: asked.step.into(),
        reason: reason(asked.reason)?,
    })
}

pub(super) fn decide(asked: pb::DecideRequest) -> Result<Decide, RpcError> {
    check_required_text("pending_id", &asked.pending_id, 128)?;
    let settlement = asked
        .settlement
        .ok_or_else(|| RpcError::missing("settlement"))?;
    let settlement = Settlement::try_from(settlement).map_err(|e| invalid("settlement", &e))?;
    match &settlement {
        Settlement::Done { output } => check_text("settlement.done.output", output, MAX_OUTPUT)?,
        Settlement::Skip { reason } => check_text("settlement.skip.reason", reason, MAX_REASON)?,
        Settlement::Fail { reason } => check_text("settlement.fail.reason", reason, MAX_REASON)?,
        Settlement::Deny { reason } => check_text("settlement.deny.reason", reason, MAX_OUTPUT)?,
        Settlement::Answer { text } => {
            check_required_text("settlement.answer.text", text, MAX_OUTPUT)?;
        }
        Settlement::ApproveAlways { when, scope } => {
            check_text("settlement.approve_always.scope", scope, MAX_SCOPE)?;
            let fits = when.len() <= MAX_CONDITIONS;
            let problem =
                || RpcError::invalid("settlement.approve_always.when", "has too many patterns");
            fits.then_some(())
                .ok_or_else(|| problem().allowed(format!("at most {MAX_CONDITIONS}")))?;
        }
        Settlement::Retry | Settlement::Approve => {}
    }
    Ok(Decide {
        pending_id: asked.pending_id,
        settlement,
    })
}

pub(super) fn invalid(field: &str, error: &ConvertError) -> RpcError {
    let path = if error.field.is_empty() {
        field.to_owned()
    } else {
        format!("{field}.{}", error.field)
    };
    RpcError::invalid(path, &error.problem)
}

/// A retry with this request_id brought the answer to another kind of request.
pub(super) fn contradiction() -> RpcError {
    RpcError::precondition("the request_id belongs to another request; choose a new one")
        .reason("REQUEST_MISMATCH")
}
