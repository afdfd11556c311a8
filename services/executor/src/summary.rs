//! The summary of older messages that an owner asks for in place of a step.

use crate::error::{Stop, invalid};
use crate::model_step::{ModelStep, Question};
use cairn_engine::conversation::CompactedMessages;
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::message::{FinishReason, Usage};
use cairn_model::{ChatOptions, ChatReply, ChatRequest, ModelError};
use cairn_proto::convert::required;
use cairn_proto::executor::{SummaryReport, SummaryTask};
use cairn_rpc::RpcError;
use std::sync::Arc;

/// What a model wrote in one or two replies, or why it wrote nothing.
struct Written {
    outcome: Result<String, Failure>,
    /// The provider refuses the question for its length.
    is_too_long: bool,
    usage: Usage,
    /// The model that answered last.
    model: String,
    duration_ms: u64,
}

impl ModelStep<'_> {
    /// Has the model write a summary, and reports what came of it. The owner then ends the stream.
    pub(crate) async fn summarise(&mut self, task: &SummaryTask) -> Result<(), Stop> {
        let most = task.max_output_tokens;
        let mut question = self.question_for_summary(task)?;
        if !self.estimator.has_room(question.size, most) {
            // The owner asks for a summary of less.
            let full = self.estimator.full(question.size);
            self.owner.report_full(full).await?;
        }
        let output = self.estimator.output_of_summary(question.size, most);
        question.request.options.max_output_tokens = Some(output);
        let written = self.write_summary(question.request).await?;
        if written.is_too_long {
            // The estimate was too low, or the window of the settings is too large.
            let full = self.estimator.refused(question.size);
            self.owner.report_full(full).await?;
        }
        let (text, failure) = match written.outcome {
            Ok(text) => (text, None),
            Err(failure) => (String::new(), Some(failure.into())),
        };
        let report = SummaryReport {
            text,
            usage: Some(written.usage.into()),
            provider: self.asker.model.describe().provider,
            model: written.model,
            duration_ms: written.duration_ms,
        };
        self.owner.report_summary(report, failure).await
    }

    /// The question with all that a provider's cache may have, with the tools of the attempt, which stand before
    /// the messages in a cache; a shorter one if that does not fit, and then one without tools.
    fn question_for_summary(&self, task: &SummaryTask) -> Result<Question, RpcError> {
        let range: CompactedMessages =
            required("start.summary.messages", task.messages).map_err(|error| invalid(&error))?;
        let (conversation, tools) = (self.replica.conversation(), self.offer.tokens);
        let whole = self
            .estimator
            .size(conversation, &conversation.messages(), tools);
        let question = |is_short, has_tools: bool| {
            let asked = self.replica.for_summary(&range, &task.prompt, is_short);
            let (messages, stable) = asked?;
            let mut request = ChatRequest {
                messages,
                stable,
                tools: Arc::clone(&self.offer.tools),
                options: ChatOptions::default(),
            };
            let mut estimated = tools;
            if !has_tools {
                request = request.without_tools();
                estimated = 0;
            }
            estimated += self.estimator.estimate(&request.messages);
            let size = self.estimator.part_of(whole, estimated);
            Ok::<_, RpcError>(Question { request, size })
        };
        let cached = question(false, true)?;
        if self.estimator.has_room(cached.size, task.max_output_tokens) {
            return Ok(cached);
        }
        let short = question(true, true)?;
        match self.estimator.has_room(short.size, task.max_output_tokens) {
            true => Ok(short),
            false => question(true, false),
        }
    }

    /// Asks the model, and once more without tools if its reply is no summary: it may have called one. Calls of a
    /// reply are not made, and no text is passed on.
    async fn write_summary(&mut self, mut request: ChatRequest) -> Result<Written, Stop> {
        let mut written = Written {
            outcome: Err(no_text()),
            is_too_long: false,
            usage: Usage::default(),
            model: self.asker.model.describe().name,
            duration_ms: 0,
        };
        for offers_tools in [true, false] {
            if !offers_tools {
                request = request.without_tools();
            }
            let question = self.asker.ask(&request, None);
            let answered = self.owner.while_listening(question).await?;
            written.usage.add(&answered.usage().unwrap_or_default());
            written.duration_ms += answered.duration_ms;
            let may_ask_again = match answered.outcome {
                Ok(reply) => {
                    written.outcome = text_of(&reply);
                    written.model = reply.model;
                    reply.finish != FinishReason::Refusal
                }
                Err(error) => {
                    let is_empty = matches!(error, ModelError::Empty { .. });
                    let is_too_long = matches!(error, ModelError::ContextLength { .. });
                    // Nothing was paid for before the first question.
                    written.is_too_long = is_too_long && offers_tools;
                    written.outcome = Err(error.into());
                    is_empty
                }
            };
            if written.outcome.is_ok() || !may_ask_again {
                break;
            }
        }
        Ok(written)
    }
}

/// The summary that a reply holds. A text beside calls only says what they are for.
fn text_of(reply: &ChatReply) -> Result<String, Failure> {
    let text = match reply.message.calls().next() {
        Some(_) => String::new(),
        None => reply.message.text(),
    };
    match reply.finish {
        FinishReason::Refusal => Err(Failure::refused_by_model()),
        _ if text.trim().is_empty() => Err(no_text()),
        // Its reader sees that it has no end.
        FinishReason::Length => Ok(format!("{}…", text.trim_end())),
        _ => Ok(text),
    }
}

fn no_text() -> Failure {
    let message = "the model's reply to the question for a summary has no text; try again, or take another model";
    Failure::new(FailureKind::Llm, "EmptyReply", message)
}
