//! A step for the model: ask, report, call, wait.

use crate::asker::{Answered, Asker, Pieces, Reporting};
use crate::attempt::{Shared, settle};
use crate::catalogue::{Catalogue, Offer};
use crate::deltas::Deltas;
use crate::error::{Stop, invalid};
use crate::estimate::{Estimator, Size};
use crate::owner::Owner;
use crate::replica::{LastCall, Replica};
use crate::targets::Targets;
use crate::tools::{Call, Tools};
use crate::turn::{Turn, give_ids};
use cairn_engine::conversation::Op;
use cairn_engine::event::AttemptRef;
use cairn_engine::failure::{Failure, FailureKind};
use cairn_engine::message::{Message, ToolCall, Usage};
use cairn_model::{ChatOptions, ChatReply, ChatRequest, ModelError};
use cairn_proto::convert::repeated;
use cairn_proto::event;
use cairn_proto::executor::{AttemptStart, FullRequest, Reply};
use cairn_rpc::RpcError;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Most pieces of a reply that wait to be gathered; then the model's stream waits. Gathering waits for no
/// owner, because a provider breaks off a reply that is not read, and it has to be paid for again. What is
/// gathered has at most the bytes of a reply.
const MOST_PIECES: usize = 1024;

/// A step for the model.
pub(crate) struct ModelStep<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) attempt: AttemptRef,
    pub(crate) tools: Tools,
    pub(crate) owner: &'a mut Owner,
    pub(crate) asker: Asker<'a>,
    pub(crate) estimator: Estimator,
    /// Of the last request; before the first one, of the start.
    pub(crate) catalogue: Arc<Catalogue>,
    /// Deferred tools that the model has found.
    pub(crate) found: Vec<String>,
    pub(crate) offer: Offer,
    /// Every call waits for its permit.
    pub(crate) no_early_calls: bool,
    pub(crate) reporting: Reporting,
    /// It is a turn of a conversation, and no step of a plan.
    pub(crate) is_turn: bool,
    pub(crate) options: ChatOptions,
    pub(crate) replica: Replica,
}

/// A question to the model.
pub(crate) struct Question {
    pub(crate) request: ChatRequest,
    pub(crate) size: Size,
}

/// A reply to a question.
struct Answer {
    reply: ChatReply,
    duration_ms: u64,
    question: Size,
}

/// A question that ends the attempt.
struct Unanswered {
    failure: Failure,
    /// What it used up all the same.
    paid: Option<Reply>,
}

impl ModelStep<'_> {
    /// Makes the calls that are still to be made, then asks the model until the attempt ends; or has the model
    /// write the summary that the owner asks for.
    pub(crate) async fn run(
        mut self,
        start: Box<AttemptStart>,
        calls: Vec<LastCall>,
    ) -> Result<(), Stop> {
        let last_turn = self.replica.tool_turns().saturating_sub(1);
        let mut turn = Turn::resumed(self.attempt, last_turn, calls);
        turn.hold(start.held_calls)?;
        let calls = turn.permit(start.open_calls)?;
        let targets = Targets {
            tools: &self.tools,
            asker: Some(&self.asker),
        };
        settle(targets, self.owner, &mut turn, calls).await?;
        self.replica.add_results(turn.into_results());
        if let Some(task) = start.summary {
            // In a place of its own: few attempts have one.
            return Box::pin(self.summarise(&task)).await;
        }
        loop {
            if start.settles_before_request {
                self.owner.settled().await?;
            }
            if self.replica.tool_turns() >= start.max_tool_turns {
                let failure = turns_used_up(start.max_tool_turns);
                return self.owner.fail(None, failure.into()).await;
            }
            let answer = match self.ask().await? {
                Ok(answer) => answer,
                Err(Unanswered { failure, paid }) => {
                    return self.owner.fail(paid, failure.into()).await;
                }
            };
            self.take_reply(answer).await?;
        }
    }

    /// Takes the catalogue that the owner named last: tools were granted or revoked.
    async fn take_catalogue(&mut self) -> Result<(), Stop> {
        if self.owner.catalogue_name() != self.catalogue.name() {
            self.catalogue = self.shared.catalogue(self.owner).await?;
            self.offer = self.catalogue.offer(&self.found);
        }
        Ok(())
    }

    /// What the model is asked next: all that the owner has said so far is in it.
    fn next_question(&mut self) -> Result<Question, RpcError> {
        let ops: Vec<Op> =
            repeated("ops", self.owner.take_ops()).map_err(|error| invalid(&error))?;
        self.replica.take_ops(ops);
        let found = self.owner.take_found();
        if !found.is_empty() {
            self.found.extend(found);
            self.offer = self.catalogue.offer(&self.found);
        }
        let (messages, stable) = self.replica.messages()?;
        let conversation = self.replica.conversation();
        let size = self
            .estimator
            .size(conversation, &messages, self.offer.tokens);
        let request = ChatRequest {
            messages,
            stable,
            tools: Arc::clone(&self.offer.tools),
            options: self.options.clone(),
        };
        Ok(Question { request, size })
    }

    /// A request that is larger than the model's window is not sent.
    fn check_window(&self, question: Size) -> Result<(), Failure> {
        let (tokens, window) = (question.tokens, self.estimator.window());
        if tokens <= window {
            return Ok(());
        }
        let what = match self.is_turn {
            true => {
                "let it be compacted (cairn context set --when-full compact), remove messages of the context \
                 (cairn context remove), give it a window (cairn context set --window), or take a model with \
                 a larger window"
            }
            false => {
                "split the step, have it read less at a time, or take a model with a larger window"
            }
        };
        let message = format!(
            "the request has about {tokens} tokens, and the model's window_tokens is {window}: {what}"
        );
        let kind = FailureKind::LimitExceeded;
        Err(Failure::new(kind, "CONTEXT_FULL", message))
    }

    /// The next question, once the owner has no more to do about its size. One with fewer tokens than `limit`
    /// is not reported.
    async fn question_that_fits(
        &mut self,
        limit: &mut u64,
    ) -> Result<Result<Question, Failure>, Stop> {
        loop {
            self.take_catalogue().await?;
            let question = self.next_question()?;
            if !self.estimator.compacts() {
                return Ok(self.check_window(question.size).map(|()| question));
            }
            if question.size.tokens < *limit {
                return Ok(Ok(question));
            }
            let full = self.estimator.full(question.size);
            *limit = self.report_full(full).await?;
        }
    }

    /// Reports a request that takes too much of the window. Returns once the model may be asked. The next one
    /// is reported again if it is larger and does not fit: if it has so many tokens.
    async fn report_full(&mut self, full: FullRequest) -> Result<u64, Stop> {
        let most = full.tokens.max(full.window_tokens);
        self.owner.report_full(full).await?;
        Ok(most.saturating_add(1))
    }

    /// Asks the model, and again where that may help.
    async fn ask(&mut self) -> Result<Result<Answer, Unanswered>, Stop> {
        let mut limit = self.estimator.limit();
        let question = match self.question_that_fits(&mut limit).await? {
            Ok(question) => question,
            Err(failure) => {
                return Ok(Err(Unanswered {
                    failure,
                    paid: None,
                }));
            }
        };
        let answered = self.put(&question.request).await?;
        let (used, duration_ms) = (answered.usage(), answered.duration_ms);
        let error = match answered.outcome {
            Ok(reply) => {
                self.asker.count_tool_turn();
                return Ok(Ok(Answer {
                    reply,
                    duration_ms,
                    question: question.size,
                }));
            }
            Err(error) => error,
        };
        // The window of the settings may be too large, and an estimate too small. A compaction ends the
        // stream.
        let is_too_long = matches!(error, ModelError::ContextLength { .. });
        if is_too_long && self.estimator.compacts() {
            let full = self.estimator.refused(question.size);
            self.report_full(full).await?;
        }
        Ok(Err(Unanswered {
            paid: used.map(|usage| self.paid(usage, duration_ms)),
            failure: error.into(),
        }))
    }

    /// Puts a question to the model, and passes its text on.
    async fn put(&mut self, request: &ChatRequest) -> Result<Answered, Stop> {
        let (pieces, come) = mpsc::channel(MOST_PIECES);
        let tool_turn = self.replica.tool_turns();
        let deltas = Deltas::new(self.attempt, tool_turn);
        let pieces = Pieces {
            to: &pieces,
            reporting: self.reporting,
            tool_turn,
        };
        let question = self.asker.ask(request, Some(pieces));
        self.owner.telling(deltas, come, question).await
    }

    /// What a question without a reply used up, as a reply with nothing in it.
    fn paid(&self, usage: Usage, duration_ms: u64) -> Reply {
        let model = self.asker.model.describe();
        Reply {
            tool_turn: self.replica.tool_turns(),
            usage: Some(usage.into()),
            provider: model.provider,
            model: model.name,
            duration_ms,
            ops_through: self.replica.ops_through(),
            window_tokens: self.estimator.window(),
            ..Reply::default()
        }
    }

    /// Reports a reply and sees its calls through.
    async fn take_reply(&mut self, answer: Answer) -> Result<(), Stop> {
        let Answer {
            reply,
            duration_ms,
            question,
        } = answer;
        let number = self.replica.tool_turns();
        let (text, mut calls, opaque) = reply.message.into_reply();
        give_ids(number, &mut calls);
        self.owner.report_reply(Reply {
            tool_turn: number,
            text: text.clone(),
            tool_calls: calls.iter().cloned().map(Into::into).collect(),
            opaque: opaque.iter().cloned().map(Into::into).collect(),
            finish: event::FinishReason::from(reply.finish).into(),
            usage: Some(reply.usage.into()),
            provider: self.asker.model.describe().provider,
            model: reply.model,
            duration_ms,
            ops_through: self.replica.ops_through(),
            estimated_tokens: question.estimated,
            window_tokens: self.estimator.window(),
        });
        self.tools.fit_results(self.estimator.window());
        let mut turn = Turn::new(self.attempt, number, &calls);
        let early = self.begin_early(&mut turn, &calls);
        let (model, usage) = (self.estimator.model(), &reply.usage);
        self.replica.measure(model, usage, question.estimated);
        self.replica.add_reply(Message::reply(text, calls, opaque));
        let targets = Targets {
            tools: &self.tools,
            asker: Some(&self.asker),
        };
        settle(targets, self.owner, &mut turn, early).await?;
        self.replica.add_results(turn.into_results());
        Ok(())
    }

    /// Begins the calls that need no permit. A tool may have been revoked since the request: what the newest
    /// catalogue does not let begin waits for the owner, as every call does if that catalogue is not here.
    fn begin_early(&self, turn: &mut Turn, calls: &[ToolCall]) -> Vec<Call> {
        let newest = match self.owner.catalogue_name() {
            _ if self.no_early_calls => None,
            name if name == self.catalogue.name() => Some(Arc::clone(&self.catalogue)),
            name => self.shared.catalogues.get(name),
        };
        let mut early = Vec::new();
        for (index, call) in calls.iter().enumerate() {
            let of_request = self.catalogue.early(&call.name);
            let now = newest.as_ref().and_then(|newest| newest.early(&call.name));
            if let Some(digest) = now.filter(|_| now == of_request) {
                early.push(Call::pure(turn.start(index), call, digest.to_owned()));
            }
        }
        early
    }
}

fn turns_used_up(max_tool_turns: u32) -> Failure {
    Failure::new(
        FailureKind::LimitExceeded,
        "max_tool_turns",
        format!(
            "the step was not completed within {max_tool_turns} tool turns; split it into smaller \
             steps or allow more with max_tool_turns"
        ),
    )
}
