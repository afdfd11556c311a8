//! Why a reply ended, by the names that servers give to ends.

use super::draft::Draft;
use super::fault;
use crate::clean::Cleaner;
use crate::{FinishReason, ModelError};

/// The reason of an end by its name. One list serves all protocols, because no name means two things.
/// None if the reply has not ended: some servers send an empty text or the text `null` until then. An
/// unknown end is logged, once for a reply: some servers repeat it in every piece.
///
/// # Errors
/// [`ModelError::Server`] if the server gave the reply up. What came is only a part of it, however
/// whole it looks.
pub(crate) fn reason(
    name: &str,
    draft: &mut Draft,
    cleaner: &Cleaner,
) -> Result<Option<FinishReason>, ModelError> {
    let reason = match name.to_ascii_lowercase().as_str() {
        "" | "null" => return Ok(None),
        "stop" | "end_turn" | "stop_sequence" => FinishReason::Stop,
        "tool_calls" | "function_call" | "tool_use" => FinishReason::ToolCalls,
        "length" | "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
        "content_filter" | "sensitive" | "refusal" => FinishReason::Refusal,
        failed @ ("abort" | "error" | "insufficient_system_resource" | "network_error") => {
            return Err(fault::of_end(failed));
        }
        // It belongs to tools that run at the server, of which none is offered.
        "pause_turn" => FinishReason::Other,
        _ => {
            if !std::mem::replace(&mut draft.has_unknown_end, true) {
                let end = cleaner.clean(name);
                tracing::warn!(end, "unknown end of a model's reply");
            }
            FinishReason::Other
        }
    };
    Ok(Some(reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_whole_a_refusal_or_a_failure_of_the_server() {
        let reason = |name: &str| reason(name, &mut Draft::default(), &Cleaner::default());
        for (name, expected) in [
            ("", None),
            ("null", None),
            ("STOP", Some(FinishReason::Stop)),
            ("max_tokens", Some(FinishReason::Length)),
            ("function_call", Some(FinishReason::ToolCalls)),
            ("sensitive", Some(FinishReason::Refusal)),
            ("of_tomorrow", Some(FinishReason::Other)),
        ] {
            assert_eq!(reason(name), Ok(expected), "{name}");
        }
        for name in [
            "abort",
            "error",
            "insufficient_system_resource",
            "network_error",
        ] {
            let error = reason(name).expect_err("a part of a reply");
            assert!(error.is_retryable());
            assert!(error.to_string().ends_with(name), "{error}");
        }
    }
}
