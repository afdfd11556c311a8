//! Reads the answer of `ToolsService.InvokeTool`.

use crate::tools::invoke_tool_response::Message;
use crate::tools::{InvokeToolResponse, ToolProgress, ToolResult};
use tonic::{Status, Streaming};

/// The result of a call, which is the last message. Progress goes to `progress`. Of a text that comes in parts,
/// the first `most` bytes are the output, with a note if that is not all.
///
/// # Errors
/// The stream broke, or ended without a result: nobody knows what became of the call.
pub async fn tool_result(
    mut messages: Streaming<InvokeToolResponse>,
    most: usize,
    mut progress: impl FnMut(ToolProgress),
) -> Result<ToolResult, Status> {
    let (mut text, mut bytes) = (String::new(), 0);
    while let Some(response) = messages.message().await? {
        match response.message {
            Some(Message::Result(mut result)) => {
                if bytes > text.len() {
                    text.push_str(&format!("\n[cut: the result has {bytes} bytes]"));
                }
                if bytes > 0 {
                    result.output = text;
                }
                return Ok(result);
            }
            Some(Message::Part(part)) => {
                // Nothing follows what was cut.
                if bytes == text.len() {
                    text.push_str(&part[..part.floor_char_boundary(most - bytes)]);
                }
                bytes += part.len();
            }
            Some(Message::Progress(step)) => progress(step),
            None => {}
        }
    }
    Err(no_result())
}

/// The error of a stream that ended without a result.
pub fn no_result() -> Status {
    Status::unavailable("the tools service ended a call without a result")
}
