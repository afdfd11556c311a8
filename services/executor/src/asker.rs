//! Questions to the model: traced, counted, and asked again where that may help.

use crate::deltas::{Piece, Retry};
use crate::tools::millis;
use cairn_engine::failure::Failure;
use cairn_engine::message::Usage;
use cairn_model::prompt::Prompts;
use cairn_model::{
    ChatReply, ChatRequest, Model, ModelError, Progress, RetryPolicy, stream_with_retry, traced,
};
use cairn_proto::executor::{AttemptStart, RetryReport};
use cairn_rpc::metrics::{self, counter, histogram};
use cairn_rpc::trace::is_content_wanted;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tracing::Instrument as _;

/// The model of an attempt, and how it is asked.
pub(crate) struct Asker<'a> {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) retry: &'a RetryPolicy,
    pub(crate) prompts: &'a Prompts,
}

/// What is reported of a reply before it is whole.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reporting {
    /// No text.
    pub(crate) no_deltas: bool,
    /// Each retry, and the model is asked again only when that is acknowledged.
    pub(crate) reports_retries: bool,
}

impl Reporting {
    /// As the owner asks for it.
    pub(crate) fn of(start: &AttemptStart) -> Self {
        Self {
            no_deltas: start.no_deltas,
            reports_retries: start.reports_retries,
        }
    }
}

/// Where a reply goes while it comes. Only the requests of an attempt have it, and hooks are asked about those alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pieces<'a> {
    pub(crate) to: &'a mpsc::Sender<Piece>,
    pub(crate) reporting: Reporting,
    /// The number of the reply in the attempt.
    pub(crate) tool_turn: u32,
}

impl Pieces<'_> {
    /// What is passed on of some progress, and what has to come before the model is asked again.
    fn piece(self, progress: Progress<'_>) -> (Option<Piece>, Option<oneshot::Receiver<()>>) {
        match progress {
            Progress::Text(_) if self.reporting.no_deltas => (None, None),
            Progress::Text(text) => (Some(Piece::Text(text.to_owned())), None),
            Progress::Retry { attempt, error, .. } if self.reporting.reports_retries => {
                let (go, may_go) = oneshot::channel();
                let report = RetryReport {
                    tool_turn: self.tool_turn,
                    attempt,
                    failure: Some(Failure::from(error.clone()).into()),
                };
                let piece = Piece::Anew(Some(Retry { report, go }));
                (Some(piece), Some(may_go))
            }
            Progress::Retry { .. } => (Some(Piece::Anew(None)), None),
        }
    }
}

/// What came of a question.
pub(crate) struct Answered {
    pub(crate) outcome: Result<ChatReply, ModelError>,
    /// From the question to the answer, in milliseconds.
    pub(crate) duration_ms: u64,
}

impl Answered {
    /// What the question used up, also if it has no reply.
    pub(crate) fn usage(&self) -> Option<Usage> {
        match &self.outcome {
            Ok(reply) => Some(reply.usage),
            Err(error) => error.usage(),
        }
    }
}

impl Asker<'_> {
    /// Asks the model. The text of the reply goes to `pieces` while it comes; none drops it.
    pub(crate) async fn ask(&self, request: &ChatRequest, pieces: Option<Pieces<'_>>) -> Answered {
        let asked = Instant::now();
        let question = stream_with_retry(&*self.model, request, self.retry, move |progress| {
            note(&progress);
            let passed_on = pieces.map(|pieces| (pieces.to, pieces.piece(progress)));
            async move {
                let Some((to, (piece, may_go))) = passed_on else {
                    return;
                };
                // The receiver is there for as long as the model is asked.
                if let Some(piece) = piece {
                    let _ = to.send(piece).await;
                }
                if let Some(may_go) = may_go {
                    let _ = may_go.await;
                }
            }
        });
        let with_content = is_content_wanted();
        let span = traced::question(&*self.model, request, with_content);
        if let Some(pieces) = pieces {
            span.in_scope(|| traced::before_request(pieces.tool_turn));
        }
        let outcome = question.instrument(span.clone()).await;
        traced::answered(&span, &outcome, with_content);
        if let Some(pieces) = pieces.filter(|_| outcome.is_ok()) {
            span.in_scope(|| traced::after_request(pieces.tool_turn));
        }
        let took = asked.elapsed();
        let answered = Answered {
            outcome,
            duration_ms: millis(took),
        };
        self.count(answered.usage(), took);
        answered
    }

    fn count(&self, usage: Option<Usage>, took: Duration) {
        let name = self.model.describe().name;
        let model = metrics::label(metrics::Kind::Model, &name);
        histogram!(metrics::MODEL_SECONDS, "model" => model).record(took);
        if let Some(used) = usage {
            let (input, output) = (used.input_tokens, used.output_tokens);
            metrics::spend(&name, input, output, used.cost_nano_usd);
        }
    }

    /// A reply begins a tool turn.
    pub(crate) fn count_tool_turn(&self) {
        let name = self.model.describe().name;
        let model = metrics::label(metrics::Kind::Model, &name);
        counter!(metrics::TOOL_TURNS, "model" => model).increment(1);
    }
}

/// Logs and traces a retry.
fn note(progress: &Progress<'_>) {
    if let Progress::Retry {
        attempt,
        error,
        wait,
    } = progress
    {
        tracing::warn!(attempt, %error, ?wait, "the model is asked again");
        traced::retry(*attempt, error);
    }
}
