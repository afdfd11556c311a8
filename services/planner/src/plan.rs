//! From a goal to a plan: ask, read, check, and ask once more if there is a fault.

use crate::messages;
use crate::parser::{PlanParseError, PlanParser, read_plan};
use cairn_engine::failure::Failure;
use cairn_engine::message::{FinishReason, Message, Usage};
use cairn_engine::needs::{check_known_capabilities, check_tools};
use cairn_engine::plan::PlanDraft;
use cairn_model::prompt::Prompts;
use cairn_model::{
    ChatReply, ChatRequest, Model, ModelError, RetryPolicy, chat_with_retry, traced,
};
use cairn_rpc::metrics::{self, histogram};
use cairn_rpc::trace::is_content_wanted;
use std::sync::Arc;
use tokio::time::Instant;
use tracing::Instrument as _;

/// How often a plan with a fault is returned to the model.
const MAX_REPAIRS: usize = 1;

/// What came of planning.
#[derive(Debug)]
pub(crate) struct Planned {
    /// The plan, checked; or why there is none.
    pub(crate) outcome: Result<PlanDraft, Failure>,
    /// What all questions to the model used up, the useless ones too.
    pub(crate) usage: Usage,
}

/// What the steps of a plan may name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known<'a> {
    /// The tools. A plan with another one is no plan.
    pub(crate) tools: &'a [String],
    /// The capabilities that a resource has. A step with another one waits for such a resource.
    pub(crate) capabilities: &'a [String],
}

/// Asks the model for a plan, in this conversation.
///
/// A plan with a fault is returned to the model, and planning fails if the next one has a fault. It fails at once if the
/// parser does not work. A plan that names an unknown capability is returned once, whatever was returned before. If the
/// model names one again, the plan stands.
pub(crate) async fn make_plan(
    model: &dyn Model,
    parser: &dyn PlanParser,
    prompts: &Prompts,
    retry: &RetryPolicy,
    messages: Vec<Message>,
    known: Known<'_>,
) -> Planned {
    let mut usage = Usage::default();
    let mut request = ChatRequest::new(messages);
    let (mut repairs, mut knows_capabilities) = (0, false);
    let outcome = loop {
        let reply = match ask(model, &request, retry, &mut usage).await {
            Ok(reply) => reply,
            Err(error) => break Err(error.into()),
        };
        let plan = match reply.finish {
            FinishReason::Refusal => break Err(Failure::refused_by_model()),
            FinishReason::Length => Err(PlanParseError::Cut),
            _ => read_plan(parser, &reply.message.text()).await,
        };
        let steps = plan.iter().flat_map(|plan| &plan.steps);
        let titles: Vec<String> = steps.map(|step| step.title.clone()).collect();
        let checked = plan.and_then(|plan| {
            check_tools(&plan, known.tools)?;
            Ok(plan)
        });
        let error = match checked {
            Ok(plan) => match check_known_capabilities(&plan, known.capabilities) {
                Err(error) if !knows_capabilities => {
                    knows_capabilities = true;
                    PlanParseError::from(error)
                }
                Ok(()) | Err(_) => break Ok(plan),
            },
            Err(error) if repairs == MAX_REPAIRS || !error.is_for_model() => {
                break Err(error.into());
            }
            Err(error) => {
                repairs += 1;
                error
            }
        };
        tracing::warn!(%error, "plan returned to the model");
        match prompts.plan_repair(&error.for_model(&titles)) {
            Ok(text) => {
                let repair = messages::ask_for_repair(reply.message, text);
                request.messages.extend(repair.map(Arc::new));
            }
            Err(error) => break Err(error.into()),
        }
    };
    Planned { outcome, usage }
}

/// Asks the model once, and again after errors that pass. What that used up is added to `usage`, of useless replies
/// too.
async fn ask(
    model: &dyn Model,
    request: &ChatRequest,
    retry: &RetryPolicy,
    usage: &mut Usage,
) -> Result<ChatReply, ModelError> {
    let asked = chat_with_retry(model, request, retry, |attempt, error, wait| {
        tracing::warn!(attempt, %error, ?wait, "the model is asked again");
        traced::retry(attempt, error);
    });
    let began = Instant::now();
    let with_content = is_content_wanted();
    let span = traced::question(model, request, with_content);
    let answer = asked.instrument(span.clone()).await;
    traced::answered(&span, &answer, with_content);
    let name = model.describe().name;
    let label = metrics::label(metrics::Kind::Model, &name);
    histogram!(metrics::MODEL_SECONDS, "model" => label).record(began.elapsed());
    let used = match &answer {
        Ok(reply) => Some(reply.usage),
        Err(error) => error.usage(),
    };
    if let Some(used) = used {
        usage.add(&used);
        let (input, output) = (used.input_tokens, used.output_tokens);
        metrics::spend(&name, input, output, used.cost_nano_usd);
    }
    answer
}
