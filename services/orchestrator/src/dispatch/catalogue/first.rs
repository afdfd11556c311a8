//! The first reading of the catalogue, which waits for servers that are being started.

use super::{Catalogue, SEPARATOR};
use cairn_engine::decide::Away;
use cairn_rpc::text::escape;
use cairn_rpc::{Link, RpcError};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::Instant;

/// How long one look at servers that are starting waits for another list. Their states are not in its digest.
const LOOK: Duration = Duration::from_millis(200);
/// The shortest time between two looks: the answer of another replica comes at once.
const SHORTEST_LOOK: Duration = Duration::from_millis(20);
/// Readings in a row without a server that is starting which end the wait: replicas answer in turn, and
/// another one may reach the server.
const SETTLED: u32 = 4;
/// A wait for servers that takes longer than this is reported.
const QUIET: Duration = Duration::from_millis(700);

impl Catalogue {
    /// The tools once no server is starting: a model must not begin without those that are a moment away.
    /// The tools service gives up on a start after the server's `start_ms`. `notice` shows a person a line
    /// about the wait; the log has it if there is none.
    pub(crate) async fn read_first(
        tools: &Link,
        notice: Option<fn(&str)>,
    ) -> Result<Self, RpcError> {
        let mut wait = Wait::begin(notice);
        let mut first = Self::read(tools).await?;
        let mut settled = 0;
        loop {
            settled = match first.starting.is_empty() {
                true => settled + 1,
                false => 0,
            };
            if !first.may_grow || settled == SETTLED {
                wait.end(&first.away);
                return Ok(first);
            }
            wait.continues(&first.starting);
            let pause = if settled > 0 { Duration::ZERO } else { LOOK };
            let next = Self::read_after(tools, &first, pause);
            let (next, ()) = tokio::join!(next, tokio::time::sleep(SHORTEST_LOOK));
            first = next?;
        }
    }
}

/// The wait, as it is reported.
struct Wait {
    notice: Option<fn(&str)>,
    began: Instant,
    /// The names of the servers that were waited for.
    servers: BTreeSet<String>,
    is_reported: bool,
}

impl Wait {
    fn begin(notice: Option<fn(&str)>) -> Self {
        Self {
            notice,
            began: Instant::now(),
            servers: BTreeSet::new(),
            is_reported: false,
        }
    }

    /// Reports the servers that are starting, once the wait takes long.
    fn continues(&mut self, starting: &[String]) {
        self.servers.extend(starting.iter().cloned());
        if self.is_reported || starting.is_empty() || self.began.elapsed() < QUIET {
            return;
        }
        self.is_reported = true;
        let servers = starting.join(", ");
        match self.notice {
            Some(show) => show(&escape(&format!(
                "waiting for servers of tools to start: {servers}; each may take its start_ms"
            ))),
            None => tracing::warn!(
                servers,
                "waiting for servers of tools to start, at most their start_ms"
            ),
        }
    }

    /// Reports the servers that were given up after a reported wait.
    fn end(&self, away: &[Away]) {
        if !self.is_reported {
            return;
        }
        let is_waited_for = |it: &&Away| {
            let name = it.prefix.strip_suffix(SEPARATOR);
            name.is_some_and(|name| self.servers.contains(name))
        };
        for Away { why, .. } in away.iter().filter(is_waited_for) {
            match self.notice {
                Some(show) => show(&escape(&format!(
                    "{why}; the work begins without its tools"
                ))),
                None => tracing::warn!(why, "server given up: the work begins without its tools"),
            }
        }
    }
}
