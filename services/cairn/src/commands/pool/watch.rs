//! `cairn pool watch`: the pool, and every change of it.

use super::{lines, to_json};
use crate::attach::Access;
use crate::client::Client;
use crate::context::Context;
use crate::error::{CliError, INTERRUPTED};
use crate::ui::live::{size, terminal_width};
use crate::ui::text::command;
use crate::ui::time::clock;
use crate::ui::{out, screen};
use cairn_proto::api::{Pool, WatchPoolRequest, WatchPoolResponse};
use cairn_rpc::{Clock as _, ErrorKind, RpcError, SystemClock};
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::sleep;
use tonic::{Status, Streaming};

/// Breaks in a row that bring no pool before watching gives up.
const MOST_TRIES: u32 = 40;
const PAUSE: Duration = Duration::from_millis(250);

/// Shows the pool until the command is interrupted: a table that changes in its place on a terminal, and a line for
/// each change elsewhere.
///
/// # Errors
/// No process works on the store; the services stay out of reach.
pub(super) async fn run(context: &Context) -> Result<ExitCode, CliError> {
    // A watch is long, and holding the store would keep other processes from it.
    let mut client = Client::attach(context, Access::Read).await?;
    let mut shown = Shown::default();
    let watched = tokio::select! {
        biased;
        () = context.stop.cancelled() => Ok(()),
        watched = follow(&mut client, &mut shown) => watched,
    };
    shown.end(context)?;
    watched.map(|()| ExitCode::from(INTERRUPTED))
}

/// Shows each pool that comes, and watches anew after a break.
async fn follow(client: &mut Client<'_>, shown: &mut Shown) -> Result<(), CliError> {
    let mut tries = 0;
    loop {
        if client.attached().is_reader() {
            return Err(no_process(client.context()));
        }
        let status = match client.pool().watch_pool(WatchPoolRequest {}).await {
            Ok(stream) => {
                let mut stream = stream.into_inner();
                show(client.context(), &mut stream, shown, &mut tries).await?
            }
            Err(status) => status,
        };
        let error = RpcError::from_status(&status);
        tries += 1;
        if !may_come_again(&error) || tries > MOST_TRIES {
            return Err(error.into());
        }
        sleep(PAUSE).await;
        client.reattach().await?;
    }
}

/// Shows the pools of one stream, and returns how it ended.
async fn show(
    context: &Context,
    stream: &mut Streaming<WatchPoolResponse>,
    shown: &mut Shown,
    tries: &mut u32,
) -> Result<Status, CliError> {
    loop {
        match stream.message().await {
            Ok(Some(message)) => {
                *tries = 0;
                shown.take(context, message.pool.unwrap_or_default())?;
            }
            Ok(None) => return Ok(Status::unavailable("the server ended the stream")),
            Err(status) => return Ok(status),
        }
    }
}

/// The stream is broken, or the server has no room for it now.
fn may_come_again(error: &RpcError) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Cancelled)
        || matches!(
            error.reason_name(),
            RpcError::READS_TOO_SLOWLY | RpcError::OVERLOADED
        )
}

fn no_process(context: &Context) -> CliError {
    let serve = command(context, "serve");
    CliError::new("no process works on the store, so no pool changes")
        .hint(format!("begin one with: {serve}"))
}

/// What was shown last.
#[derive(Debug, Default)]
struct Shown {
    last: Option<Pool>,
}

impl Shown {
    fn take(&mut self, context: &Context, pool: Pool) -> Result<(), CliError> {
        if context.json {
            out::json(&to_json(&pool))?;
        } else if context.live {
            let mut table = lines::of(&pool, terminal_width());
            // What is above the first row of the terminal could not be taken away.
            table.truncate(size().1.saturating_sub(1));
            screen::frame(&[], table)?;
        } else {
            let now = i64::try_from(SystemClock.unix_ms()).unwrap_or(i64::MAX);
            let before = self.last.as_ref();
            let changed = lines::changes(before.unwrap_or(&Pool::default()), &pool);
            let mut changed = changed.into_iter();
            changed.try_for_each(|line| out::line(&format!("{} {line}", clock(now))))?;
        }
        self.last = Some(pool);
        Ok(())
    }

    /// On a terminal the last table stands.
    fn end(self, context: &Context) -> Result<(), CliError> {
        match self.last {
            Some(pool) if context.live => Ok(screen::frame(
                &lines::of(&pool, terminal_width()),
                Vec::new(),
            )?),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_continues_after_a_break_and_ends_with_every_other_error() {
        let slow = RpcError::exhausted("").reason(RpcError::READS_TOO_SLOWLY);
        let refused = RpcError::new(ErrorKind::Unimplemented, "");
        assert!(may_come_again(&RpcError::unavailable("")) && may_come_again(&slow));
        assert!(!may_come_again(&refused));
    }
}
