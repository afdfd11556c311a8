//! Whether a server has what was answered.

use super::{Mark, Witness};
use crate::aside;
use crate::port::{Quarantine, SessionKey, StoreResult};
use crate::redis::failure::{Effect, odd};
use crate::redis::keys::{self, PARTITIONS, session_of};
use crate::redis::node::{Live, Node, Trouble};
use crate::redis::script::{Odd, Reply};
use cairn_rpc::metrics::{self, counter};
use redis::{Pipeline, Value};
use std::collections::HashMap;

/// Sessions that are asked about at once.
const AT_ONCE: usize = 256;

/// Sessions that are named in the log; the others are counted.
const NAMED: usize = 100;

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

fn text(value: Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes).ok(),
        Value::VerbatimString { text, .. } | Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

/// What a server has of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stored {
    Nothing,
    Deleted,
    At(Mark),
}

/// A session of which acknowledged writes are gone.
struct Behind {
    key: SessionKey,
    known: Mark,
    stored: Stored,
}

impl Witness {
    /// Holds what a server has against what was answered of its partitions, and sets aside what is
    /// behind. `given` is the time that scripts are given, if they are given one.
    pub(in crate::redis) async fn check(
        &self,
        node: &Node,
        live: &Live,
        has: impl Fn(u16) -> bool,
        given: Option<i64>,
    ) -> StoreResult<()> {
        if has(0) {
            self.check_identity(node, live).await?;
        }
        let mut behind = Vec::new();
        for part in self.known(has).chunks(AT_ONCE) {
            let mut questions = Pipeline::new();
            for (key, _) in part {
                let hash = self.names.session(key).hash();
                let question = questions.cmd("HMGET").arg(hash);
                question.arg(&["del", "ver", "seq"]);
            }
            let answers = node.send_all_over(live.clone(), &questions).await;
            let answers = answers.map_err(|trouble| trouble.told(node))?;
            for ((key, known), answer) in part.iter().zip(answers) {
                let stored = stored(answer).map_err(|error| odd(Effect::Reads, error))?;
                if is_behind(known, stored) {
                    let (key, known) = (key.clone(), *known);
                    behind.push(Behind { key, known, stored });
                }
            }
        }
        if behind.is_empty() {
            return Ok(());
        }
        self.put_aside(node, live, &behind, given).await?;
        self.tell(node, &behind);
        Ok(())
    }

    /// The sessions of these partitions that something is known of, also by who follows them.
    fn known(&self, has: impl Fn(u16) -> bool) -> Vec<(SessionKey, Mark)> {
        let mut known: HashMap<SessionKey, Mark> = HashMap::new();
        for partition in (0..PARTITIONS).filter(|partition| has(*partition)) {
            for (member, mark) in self.marks(partition).all() {
                let key = session_of(member);
                known.extend(key.map(|key| (key, *mark)));
            }
        }
        for (key, seq) in self.hub.followed() {
            if seq > 0 && has(keys::partition(&key)) {
                let mark = Mark {
                    seq,
                    ..Mark::default()
                };
                known.entry(key).or_default().raise(mark);
            }
        }
        known.into_iter().collect()
    }

    async fn check_identity(&self, node: &Node, live: &Live) -> StoreResult<()> {
        let mut question = Pipeline::new();
        question.cmd("HGET").arg(self.names.meta()).arg("id");
        let answer = node.send_all_over(live.clone(), &question).await;
        let answer = answer.map_err(|trouble| trouble.told(node))?;
        let found = answer.into_iter().next().and_then(text);
        if found.as_deref() == Some(&self.id) {
            return Ok(());
        }
        let (server, opened) = (node.name(), &self.id);
        let found = found.unwrap_or_else(|| "none".to_owned());
        tracing::error!(
            server,
            opened,
            found,
            "the server does not hold the store that was opened: its sessions are lost, or it is \
             another server"
        );
        self.count(1);
        Ok(())
    }

    /// What is left of the sessions is not gone on with.
    async fn put_aside(
        &self,
        node: &Node,
        live: &Live,
        behind: &[Behind],
        given: Option<i64>,
    ) -> StoreResult<()> {
        let mut commands = Pipeline::new();
        commands.add_command(self.set_aside.load());
        for Behind { key, stored, .. } in behind {
            if let Stored::At(_) = stored {
                let names = self.names.session(key);
                let keys = names.for_setting_aside();
                let call = self.set_aside.call(&keys).arg(&names.member);
                let call = match given {
                    Some(now) => call.arg(now),
                    None => call,
                };
                commands.add_command(call.cmd);
            }
        }
        let done = node.send_all_over(live.clone(), &commands).await;
        let done = done.map_err(|trouble| trouble.told(node))?;
        // The first answer is that of the script, which is known now.
        let left = behind
            .iter()
            .filter(|it| matches!(it.stored, Stored::At(_)));
        for (Behind { key, .. }, answer) in left.zip(done.into_iter().skip(1)) {
            // Somebody else may have been faster, and has told.
            if is_new(answer) {
                aside::tell(key, Quarantine::WritesLost);
            }
        }
        Ok(())
    }

    fn tell(&self, node: &Node, behind: &[Behind]) {
        let server = node.name();
        for Behind { key, known, stored } in behind.iter().take(NAMED) {
            let session = format!("{}/{}", key.namespace(), key.session());
            let (version, seq, left) = match stored {
                Stored::At(mark) if known.is_deleted => (
                    mark.version,
                    mark.seq,
                    "its deletion is lost; it is set aside",
                ),
                Stored::At(mark) => (mark.version, mark.seq, "it is set aside"),
                Stored::Nothing | Stored::Deleted => (0, 0, "nothing is left of it"),
            };
            tracing::error!(
                server,
                session,
                known_version = known.version,
                known_seq = known.seq,
                version,
                seq,
                left,
                "acknowledged writes of a session are lost"
            );
        }
        let sessions = behind.len();
        tracing::error!(
            server,
            sessions,
            "the server has an older state than it had: acknowledged writes are lost"
        );
        for Behind { key, stored, .. } in behind {
            let member = keys::member(key);
            self.marks(keys::partition(key)).forget(&member);
            // Who follows it looks for itself.
            let last_seq = match stored {
                Stored::At(mark) => mark.seq,
                Stored::Nothing | Stored::Deleted => 0,
            };
            self.hub.looked(key, last_seq);
        }
        self.count(sessions as u64);
    }

    fn count(&self, losses: u64) {
        counter!(metrics::LOST_WRITES, "seen_by" => "store").increment(losses);
        self.losses.send_modify(|known| *known += losses);
    }
}

/// Whether the script has set a session aside that was not.
fn is_new(answer: Value) -> bool {
    let words = Reply::new(answer).and_then(|mut words| Ok((words.text()?, words.int()?)));
    words.is_ok_and(|(word, new)| word == "ok" && new == 1)
}

fn is_behind(known: &Mark, stored: Stored) -> bool {
    match stored {
        // Somebody else may have deleted it since.
        Stored::Deleted => false,
        // The mark of a deletion does not last for ever.
        Stored::Nothing => !known.is_deleted,
        Stored::At(stored) => {
            known.is_deleted || stored.version < known.version || stored.seq < known.seq
        }
    }
}

/// The answer to the fields `del`, `ver` and `seq`.
fn stored(answer: Value) -> Result<Stored, Odd> {
    let mut fields = Reply::new(answer)?;
    if fields.optional()?.is_some() {
        return Ok(Stored::Deleted);
    }
    let version = fields.value()?;
    if version == Value::Nil {
        return Ok(Stored::Nothing);
    }
    let number = |value| {
        let number = crate::redis::script::int(&value).ok_or(Odd)?;
        u64::try_from(number).map_err(|_| Odd)
    };
    Ok(Stored::At(Mark {
        version: number(version)?,
        seq: number(fields.value()?)?,
        is_deleted: false,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(version: u64, seq: u64) -> Mark {
        Mark {
            version,
            seq,
            is_deleted: false,
        }
    }

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

    #[test]
    fn what_is_less_than_known_is_behind() {
        let known = at(3, 9);
        for (stored, want) in [
            (Stored::At(at(3, 9)), false),
            (Stored::At(at(4, 12)), false),
            (Stored::At(at(3, 8)), true),
            (Stored::At(at(2, 9)), true),
            (Stored::Nothing, true),
            (Stored::Deleted, false),
        ] {
            assert_eq!(is_behind(&known, stored), want, "{stored:?}");
        }
        let deleted = Mark {
            is_deleted: true,
            ..known
        };
        assert!(is_behind(&deleted, Stored::At(at(9, 99))));
        assert!(!is_behind(&deleted, Stored::Nothing));
    }
}
