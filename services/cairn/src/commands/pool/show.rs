//! `cairn pool show`.

use super::{lines, to_json};
use crate::attach::{Access, Servers};
use crate::client::Client;
use crate::context::Context;
use crate::error::CliError;
use crate::ui::live::terminal_width;
use crate::ui::out;
use cairn_proto::api::{GetPoolRequest, Pool};

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

/// The pool as it is now.
///
/// # Errors
/// The service's.
pub(super) async fn read(client: &mut Client<'_>) -> Result<Pool, CliError> {
    let answer = client.persist_pool(|mut pool| async move {
        let request = GetPoolRequest {};
        pool.get_pool(request).await
    });
    Ok(answer.await?.pool.unwrap_or_default())
}
