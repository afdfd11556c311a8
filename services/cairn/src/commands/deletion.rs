//! What the commands share that delete something stored under a name: the question before, and the line after.

use super::confirm::{agree, is_at_terminal};
use crate::context::Context;
use crate::error::CliError;
use crate::ui::out;
use cairn_rpc::text::{clip, escape};
use serde_json::json;

/// Most bytes of a name in a question: the id of a page has no more.
const SHOWN: usize = 128;

/// Asks a person at the terminal whether something is to be deleted: "Delete the KIND NAME?".
///
/// # Errors
/// The person does not agree; an interruption.
pub(super) async fn agree_to_delete(
    context: &Context,
    kind: &str,
    name: &str,
) -> Result<(), CliError> {
    if !is_at_terminal(context) {
        return Ok(());
    }
    let name = clip(name, SHOWN);
    agree(context, &format!("Delete the {kind} {name}?")).await
}

/// Reports that it is deleted. `field` has the name in JSON.
///
/// # Errors
/// The output cannot be written.
pub(super) fn report(
    context: &Context,
    kind: &str,
    field: &str,
    name: &str,
) -> Result<(), CliError> {
    if context.json {
        return out::json(&json!({field: name, "deleted": true}));
    }
    out::line(&format!("{kind} {} is deleted", escape(name)))
}
