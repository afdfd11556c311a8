//! Questions to the model: traced, counted, and asked again where that may help.

use crate::deltas::Piece;
use crate::tools::millis;
use cairn_engine::message::Usage;
use cairn_model::{
    ChatReply, ChatRequest, Model, ModelError, Progress, RetryPolicy, stream_with_retry, traced,
};
use cairn_rpc::metrics::{self, counter, histogram};
use cairn_rpc::trace::is_content_wanted;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::Instrument as _;

/// The model of an attempt, and how it is asked.
pub(crate) struct Asker<'a> {
    pub(crate) model: Arc<dyn Model>,
    pub(crate) retry: &'a RetryPolicy,
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
    pub(crate) async fn ask(
        &self,
        request: &ChatRequest,
        pieces: Option<&mpsc::Sender<Piece>>,
    ) -> Answered {
        let asked = Instant::now();
        let question = stream_with_retry(&*self.model, request, self.retry, move |progress| {
            let piece = piece(progress);
            async move {
                if let Some(pieces) = pieces {
                    // The receiver is there for as long as the model is asked.
                    let _ = pieces.send(piece).await;
                }
            }
        });
        let with_content = is_content_wanted();
        let span = traced::question(&*self.model, request, with_content);
        let outcome = question.instrument(span.clone()).await;
        traced::answered(&span, &outcome, with_content);
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

fn piece(progress: Progress<'_>) -> Piece {
    match progress {
        Progress::Text(text) => Piece::Text(text.to_owned()),
        Progress::Retry {
            attempt,
            error,
            wait,
        } => {
            tracing::warn!(attempt, %error, ?wait, "the model is asked again");
            traced::retry(attempt, error);
            Piece::Anew
        }
    }
}
