//! What a server is at the moment, and whose writes it continues.

use super::stored::text;
use crate::port::StoreResult;
use crate::redis::node::{Live, Node, Trouble};
use redis::Pipeline;

/// What a server is at the moment.
pub(in crate::redis) struct Standing {
    /// It takes writes.
    pub(in crate::redis) is_master: bool,
    /// Which process it is and whose writes it continues: as long as that is the same, it has what
    /// it had. `None` if it does not tell.
    pub(in crate::redis) lineage: Option<String>,
}

impl Standing {
    /// Asks a server. One that may not tell is taken for a master of unknown lineage.
    pub(in crate::redis) async fn of(node: &Node, live: &Live) -> StoreResult<Self> {
        let mut info = Pipeline::new();
        info.cmd("INFO").arg("server").arg("replication");
        let text = match node.send_all_over(live.clone(), &info).await {
            Ok(values) => values.into_iter().next().and_then(text),
            Err(Trouble::Failed(error)) if error.code() == Some("NOPERM") => None,
            Err(trouble) => return Err(trouble.told(node)),
        };
        Ok(text.map_or(
            Self {
                is_master: true,
                lineage: None,
            },
            |text| Self::read(&text),
        ))
    }

    fn read(text: &str) -> Self {
        let field = |name: &str| {
            let mut lines = text.lines();
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        };
        let lineage = field("run_id").zip(field("master_replid"));
        Self {
            is_master: field("role") != Some("slave"),
            lineage: lineage.map(|(process, writes)| format!("{process} {writes}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_known_by_its_process_and_by_whose_writes_it_has() {
        let text = "# Server\r\nrun_id:aa\r\n\r\n# Replication\r\nrole:master\r\n\
                    master_replid:bb\r\nmaster_replid2:00\r\n";
        let standing = Standing::read(text);
        assert!(standing.is_master);
        assert_eq!(standing.lineage.as_deref(), Some("aa bb"));
        assert!(!Standing::read("role:slave\r\n").is_master);
        assert_eq!(Standing::read("role:master\r\n").lineage, None);
    }
}
