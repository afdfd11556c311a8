//! What the model is told in an attempt. No I/O, and the same for the same attempt: a continued
//! one builds from its transcript exactly what the one before it had.

use cairn_engine::message::{Message, Role};
use cairn_model::{ChatRequest, OfferedTool};
use cairn_rpc::RpcError;

/// Follows a reply without calls, because such a reply ends nothing. It is not in the journal.
const GO_ON: &str = "Continue with the step; call the `step` tool with complete=true and a \
                     summary when it is done.";

/// The conversation with the model, as far as it has come.
#[derive(Debug)]
pub(crate) struct Conversation {
    request: ChatRequest,
    turns: u32,
}

/// A call of the last reply, by its id, with its result if it has one.
pub(crate) type LastCall = (String, Option<Message>);

impl Conversation {
    /// A conversation in which nothing was said yet: the system prompt is the executor's own and
    /// then the owner's layers, and the step's context is the first message.
    pub(crate) fn new(
        own_prompts: &[&str],
        layers: &[String],
        step_context: String,
        tools: Vec<OfferedTool>,
    ) -> Self {
        let own_prompts = own_prompts.iter().copied();
        let prompt: Vec<&str> = own_prompts
            .chain(layers.iter().map(String::as_str))
            .map(str::trim_end)
            .filter(|layer| !layer.is_empty())
            .collect();
        let messages = vec![
            Message::system(prompt.join("\n\n")),
            Message::user(step_context),
        ];
        Self {
            request: ChatRequest {
                messages,
                tools,
                ..ChatRequest::default()
            },
            turns: 0,
        }
    }

    /// Goes through what was said before. If calls of the last reply are without a result, all
    /// its calls are returned, and their results are still to be [added](Self::add_results).
    pub(crate) fn replay(&mut self, transcript: Vec<Message>) -> Result<Vec<LastCall>, RpcError> {
        let mut rest = transcript.into_iter().enumerate().peekable();
        while let Some((at, reply)) = rest.next() {
            if reply.role != Role::Assistant {
                return Err(
                    RpcError::invalid(format!("transcript[{at}].role"), "is out of place")
                        .allowed("a reply of the model, then the results of its calls"),
                );
            }
            let ids = reply.tool_calls.iter().map(|call| call.id.clone());
            let mut calls: Vec<LastCall> = ids.map(|id| (id, None)).collect();
            while let Some((at, result)) = rest.next_if(|(_, next)| next.role == Role::Tool) {
                let open =
                    |(id, known): &&mut LastCall| *id == result.tool_call_id && known.is_none();
                let Some((_, known)) = calls.iter_mut().find(open) else {
                    let field = format!("transcript[{at}].tool_call_id");
                    return Err(RpcError::invalid(
                        field,
                        "is no open call of the reply before it",
                    ));
                };
                *known = Some(result);
            }
            self.add_reply(reply);
            if calls.iter().all(|(_, result)| result.is_some()) {
                self.add_results(calls.into_iter().filter_map(|(_, result)| result));
            } else if rest.peek().is_none() {
                return Ok(calls);
            } else {
                let field = format!("transcript[{at}].tool_calls");
                return Err(RpcError::invalid(
                    field,
                    "lacks a result before the next reply",
                ));
            }
        }
        Ok(Vec::new())
    }

    /// The model has replied.
    pub(crate) fn add_reply(&mut self, reply: Message) {
        self.turns += 1;
        let is_thought = reply.tool_calls.is_empty();
        self.request.messages.push(reply);
        if is_thought {
            self.request.messages.push(Message::user(GO_ON));
        }
    }

    /// All calls of the last reply have their results, here in the order of the calls.
    pub(crate) fn add_results(&mut self, results: impl IntoIterator<Item = Message>) {
        self.request.messages.extend(results);
    }

    /// The next question to the model.
    pub(crate) fn request(&self) -> &ChatRequest {
        &self.request
    }

    /// Replies so far, which is also the number of the next tool turn.
    pub(crate) fn turns(&self) -> u32 {
        self.turns
    }
}
