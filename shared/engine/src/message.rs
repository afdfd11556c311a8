//! What goes to a language model and comes back: messages, tool calls, usage.

use serde::{Deserialize, Serialize};

/// Who speaks in a [`Message`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions that hold for the whole conversation.
    System,
    /// The person, or Cairn in their place (requirement, step context).
    User,
    /// The model.
    Assistant,
    /// The result of one tool call.
    Tool,
}

/// A model's wish to have a tool called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Names the call within its attempt; the result refers to it.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// The arguments as JSON text, as the model wrote them: possibly invalid.
    pub arguments: String,
}

/// One message of a conversation with a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said; may be empty beside tool calls.
    pub text: String,
    /// Calls asked for; only an assistant has any.
    pub tool_calls: Vec<ToolCall>,
    /// The call that this is the result of; empty unless the role is [`Role::Tool`].
    pub tool_call_id: String,
    /// The result tells of a failure; only with [`Role::Tool`].
    pub is_error: bool,
}

impl Message {
    /// Instructions for the whole conversation.
    pub fn system(text: impl Into<String>) -> Self {
        Self::plain(Role::System, text.into())
    }

    /// What the person says.
    pub fn user(text: impl Into<String>) -> Self {
        Self::plain(Role::User, text.into())
    }

    /// A model's reply with the calls that it asks for.
    pub fn assistant(text: impl Into<String>, tool_calls: Vec<ToolCall>) -> Self {
        Self {
            tool_calls,
            ..Self::plain(Role::Assistant, text.into())
        }
    }

    /// The result of the call `tool_call_id`.
    pub fn tool(tool_call_id: impl Into<String>, text: impl Into<String>, is_error: bool) -> Self {
        Self {
            tool_call_id: tool_call_id.into(),
            is_error,
            ..Self::plain(Role::Tool, text.into())
        }
    }

    fn plain(role: Role, text: String) -> Self {
        Self {
            role,
            text,
            tool_calls: Vec::new(),
            tool_call_id: String::new(),
            is_error: false,
        }
    }
}

/// What model calls used up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens sent, cached ones included.
    pub input_tokens: u64,
    /// Tokens received.
    pub output_tokens: u64,
    /// Price in 10⁻⁹ US dollars.
    pub cost_nano_usd: u64,
    /// Calls of a model that were answered.
    pub model_calls: u32,
}

impl Usage {
    /// Tokens in and out.
    pub fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Adds `other` to this, stopping at the largest number.
    pub fn add(&mut self, other: &Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cost_nano_usd = self.cost_nano_usd.saturating_add(other.cost_nano_usd);
        self.model_calls = self.model_calls.saturating_add(other.model_calls);
    }
}
