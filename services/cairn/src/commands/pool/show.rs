//! `cairn pool show`.

use super::{lines, to_json};
use crate::attach::{Access, Servers};
use crate::client::Client;
use crate::context::Context;
use crate::error::{CliError, INTERRUPTED};
use crate::ui::live::terminal_width;
use crate::ui::out;
use cairn_engine::pool::EXECUTOR;
use cairn_proto::api::{GetPoolRequest, Pool};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long the executor of this process may take to report.
const REPORTS: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(50);

/// Shows the pool as it is now.
///
/// # Errors
/// The store cannot be opened; the service's.
pub(super) async fn run(context: &Context) -> Result<(), CliError> {
    let mut client = Client::attach_with(context, Access::Make, Servers::All).await?;
    let pool = read(&mut client).await;
    client.finish().await;
    let pool = pool?;
    if context.json {
        return out::json(&to_json(&pool));
    }
    let mut lines = lines::of(&pool, terminal_width()).into_iter();
    lines.try_for_each(|line| out::line(&line))
}

/// The pool; of this process once its executor has reported.
pub(super) async fn read(client: &mut Client<'_>) -> Result<Pool, CliError> {
    let until = Instant::now() + REPORTS;
    let stop = client.context().stop.clone();
    loop {
        let answer = client.persist_pool(|mut pool| async move {
            let request = GetPoolRequest {};
            pool.get_pool(request).await
        });
        let pool = answer.await?.pool.unwrap_or_default();
        let has_executor = pool.resources.iter().any(|it| it.kind == EXECUTOR);
        if has_executor || !client.attached().is_holder() || Instant::now() >= until {
            return Ok(pool);
        }
        tokio::select! {
            () = sleep(PAUSE) => {}
            () = stop.cancelled() => {
                return Err(CliError::new("interrupted").code(INTERRUPTED));
            }
        }
    }
}
