//! The conversation of an attempt: what it begins with, how it changes, and that a continued attempt is
//! sent what the one before would have been sent.

use crate::world::{World, chain, kinds, look, model_step, some_call, tool_call};
use cairn_engine::conversation::{Conversation, Layer, LayerKind, Op};
use cairn_engine::decide::{Input, Reply};
use cairn_engine::event::{self, EventKind};
use cairn_engine::message::{
    FinishReason, Message, Opaque, Part, PlacedOpaque, Role, ToolCall, Usage,
};
use cairn_engine::prompt;
use proptest::prelude::*;
use serde_json::json;
