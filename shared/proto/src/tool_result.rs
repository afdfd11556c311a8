//! Reads the answer of `ToolsService.InvokeTool`.

use crate::tools::invoke_tool_response::Message;
use crate::tools::{InvokeToolResponse, ToolProgress, ToolResult};
use tonic::{Status, Streaming};

/// The result of a call, which is the last message. Progress goes to `progress`.
///
/// # Errors
/// The stream broke, or ended without a result: nobody knows what became of the call.
pub async fn tool_result(
    mut messages: Streaming<InvokeToolResponse>,
    mut progress: impl FnMut(ToolProgress),
) -> Result<ToolResult, Status> {
    while let Some(response) = messages.message().await? {
        match response.message {
            Some(Message::Result(result)) => return Ok(result),
            Some(Message::Progress(step)) => progress(step),
            None => {}
        }
    }
    Err(Status::unavailable(
        "the tools service ended a call without a result",
    ))
}
