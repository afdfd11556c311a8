//! What to do next.

use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::text::command;
use crate::workspace::resume_command;

/// How to go on with a session after a change. A process that came only for the change goes now,
/// and with it whoever could go on.
pub(super) fn go_on(client: &Client<'_>, session: &str) -> String {
    let context = client.context();
    match client.attached().is_holder() {
        true => format!("go on  {}", resume_command(context, session)),
        false => format!("watch  {}", command(context, &format!("watch {session}"))),
    }
}

/// An error about a step, with the way to the steps that there are.
pub(super) fn with_plan(context: &Context, session: &str, error: CliError) -> CliError {
    match error.reason.as_str() {
        "NO_SUCH_STEP" | "STEP_ENDED" | "STEP_NOT_ENDED" => {
            let show = command(context, &format!("plan show {session}"));
            error.hint(format!("see the steps with: {show}"))
        }
        _ => error,
    }
}
