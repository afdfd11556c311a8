//! Asks tools what calls of models would change, before anybody decides about them.
//!
//! Each owner of the session asks anew until a preview is recorded, and nothing is changed by that. A preview ends
//! with its call: [`Owner::drop_done`] drops what the state no longer asks for.

use super::{Message, Owner};
use crate::deps::Deps;
use crate::key::SessionKey;
use crate::store::{for_session, may_pass, within};
use cairn_engine::decide::{Answer, Previewed};
use cairn_engine::event::{CallFinished, CallRef};
use cairn_engine::outstanding::Work;
use cairn_proto::tools::preview_tool_response::Outcome;
use cairn_proto::tools::{PreviewToolRequest, ToolResult};
use cairn_rpc::RpcError;
use futures::stream;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Previews of a session that are found at a time. Further ones begin when these have ended.
const MOST_AT_A_TIME: usize = 4;
/// A call whose preview takes longer fails.
const LONGEST: Duration = Duration::from_secs(30);
/// One try to find a preview may take so long.
const TRY: Duration = Duration::from_secs(10);
/// The pause before the tools service is asked again.
const PAUSE: Duration = Duration::from_millis(100);

impl Owner {
    /// Begins to find what a call would change, unless too many previews are being found.
    pub(super) fn find_preview(&mut self, work: Work, name: CallRef) {
        let under_way = self.active.keys();
        let under_way = under_way.filter(|work| matches!(work, Work::Preview(_)));
        if under_way.count() >= MOST_AT_A_TIME {
            return;
        }
        let Some(request) = self.preview_request(name) else {
            return;
        };
        let (deps, key) = (self.deps.clone(), self.key.clone());
        let found = async move {
            let found = timeout(LONGEST, find(&deps, &key, request)).await;
            let outcome = found.unwrap_or_else(|_| {
                let limit = LONGEST.as_secs();
                let output = format!(
                    "the file tools did not say within {limit} s what the call would change; it was not made, \
                     try again"
                );
                failed(output, Answer::TIMEOUT)
            });
            Message::Previewed {
                call: name,
                outcome,
            }
        };
        self.begin_work(work, stream::once(found), None);
    }

    fn preview_request(&self, name: CallRef) -> Option<PreviewToolRequest> {
        let (run, call) = (
            self.session.run(name.attempt.run)?,
            self.session.call(name)?,
        );
        let agent = run.agent.as_ref().map(|used| used.name.clone());
        Some(PreviewToolRequest {
            name: call.call.name.clone(),
            arguments_json: call.arguments().to_owned(),
            session: self.key.id.to_string(),
            tool_digest: call.tool_digest.clone(),
            agent: agent.unwrap_or_default(),
            resolved: call.resolved.iter().cloned().map(Into::into).collect(),
        })
    }
}

/// Asks the tools service, again and again while it cannot be reached.
async fn find(deps: &Deps, key: &SessionKey, request: PreviewToolRequest) -> Previewed {
    let mut tools = deps.dispatch.tools();
    loop {
        let sent = within(TRY, for_session(key, request.clone()));
        match tools.preview_tool(sent).await {
            Ok(answer) => match answer.into_inner().outcome {
                Some(Outcome::Preview(preview)) => return Previewed::Shown(preview.into()),
                Some(Outcome::Result(result)) => {
                    if let Some(outcome) = ended(deps, result).await {
                        return outcome;
                    }
                }
                None => return cannot_be_found("the file tools gave no preview"),
            },
            Err(status) => {
                let error = RpcError::from_status(&status);
                if !may_pass(&error) {
                    return cannot_be_found(&error.message());
                }
            }
        }
        sleep(PAUSE).await;
    }
}

/// What a result in place of a preview means. None if the tools service did not look at the call.
async fn ended(deps: &Deps, result: ToolResult) -> Option<Previewed> {
    match result.unsent {
        Some(unsent) => {
            // The call is judged by the tool that there is now.
            deps.dispatch.read_again().await;
            let resolved = unsent.resolved.into_iter().map(Into::into).collect();
            Some(Previewed::Rejudge { resolved })
        }
        None if result.reason == CallFinished::NOT_SENT => None,
        None => Some(failed(result.output, &result.reason)),
    }
}

fn cannot_be_found(why: &str) -> Previewed {
    let output =
        format!("it cannot be found what the call would change, so it was not made: {why}");
    failed(output, Answer::FAILED)
}

fn failed(output: String, reason: &str) -> Previewed {
    Previewed::Failed {
        output,
        reason: reason.to_owned(),
    }
}
