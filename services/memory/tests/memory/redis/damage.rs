//! Bytes that change on a server, behind the store's back.

use crate::damage::{
    Cell, Vault, every_flipped_byte_is_reported, what_is_elsewhere_or_gone_is_reported,
};
use cairn_memory::port::{Store, Stored};
use cairn_memory::redis::{RedisConfig, RedisOptions, RedisStore};
use cairn_testkit::RedisServer;
use redis::{Connection, FromRedisValue, cmd};
use std::sync::Mutex;

/// Bytes of the name of an event's field.
const NAME: usize = 5;

struct Server {
    store: RedisStore,
    connection: Mutex<Connection>,
    /// What the names of the session's keys begin with.
    session: String,
    _server: RedisServer,
}

impl Server {
    async fn new() -> Self {
        let server = RedisServer::start();
        let config = RedisConfig::standalone(server.url());
        let store = RedisStore::open(&config, RedisOptions::default())
            .await
            .unwrap();
        let client = redis::Client::open(server.url()).unwrap();
        Self {
            store,
            connection: Mutex::new(client.get_connection().unwrap()),
            // printf space/a | sha256sum
            session: "cairn:{p061}:s:space/a".to_owned(),
            _server: server,
        }
    }

    fn ask<T: FromRedisValue>(&self, command: &str, words: &[&[u8]]) -> T {
        let mut connection = self.connection.lock().unwrap();
        cmd(command).arg(words).query(&mut *connection).unwrap()
    }

    /// The entries of the journal: their ids, and the name and value of the field.
    fn journal(&self) -> Vec<(String, [Vec<u8>; 2])> {
        let journal = format!("{}:j", self.session);
        type Entry = (String, (Vec<u8>, Vec<u8>));
        let entries: Vec<Entry> = self.ask("XRANGE", &[journal.as_bytes(), b"-", b"+"]);
        let entry = |(id, (name, value))| (id, [name, value]);
        entries.into_iter().map(entry).collect()
    }

    /// A stream takes no entry but behind its last.
    fn put_event(&self, id: &str, bytes: Option<&[u8]>) {
        let mut entries = self.journal();
        entries.retain(|entry| entry.0 != id);
        if let Some(bytes) = bytes {
            let (name, value) = bytes.split_at(NAME);
            entries.push((id.to_owned(), [name.to_vec(), value.to_vec()]));
        }
        let number = |id: &str| id.trim_end_matches("-0").parse::<u64>().unwrap();
        entries.sort_by_key(|(id, _)| number(id));
        let journal = format!("{}:j", self.session);
        let _: u64 = self.ask("DEL", &[journal.as_bytes()]);
        for (id, [name, value]) in entries {
            let _: String = self.ask("XADD", &[journal.as_bytes(), id.as_bytes(), &name, &value]);
        }
    }
}

impl Vault for Server {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    fn cells(&self) -> Vec<Cell> {
        let cell = |table: &str, row: &str, bytes, part| Cell {
            table: format!("{}:{table}", self.session),
            row: row.to_owned(),
            bytes,
            parts: vec![(0, part)],
        };
        let mut cells = Vec::new();
        for (seq, (id, field)) in (1..).zip(self.journal()) {
            cells.push(cell("j", &id, field.concat(), Stored::Event(seq)));
        }
        for table in ["c", "b"] {
            let hash = format!("{}:{table}", self.session);
            let fields: Vec<(String, Vec<u8>)> = self.ask("HGETALL", &[hash.as_bytes()]);
            for (field, bytes) in fields {
                let part = match table {
                    "c" => Stored::Checkpoint(field.split_once('.').unwrap().0.parse().unwrap()),
                    _ => Stored::Blob(field.clone()),
                };
                cells.push(cell(table, &field, bytes, part));
            }
        }
        cells
    }

    fn put(&self, cell: &Cell, bytes: Option<&[u8]>) {
        let (table, row) = (cell.table.as_bytes(), cell.row.as_bytes());
        if matches!(cell.parts[0].1, Stored::Event(_)) {
            return self.put_event(&cell.row, bytes);
        }
        let _: u64 = match bytes {
            Some(bytes) => self.ask("HSET", &[table, row, bytes]),
            None => self.ask("HDEL", &[table, row]),
        };
    }
}

#[tokio::test]
async fn every_flipped_byte_on_a_server_is_reported() {
    every_flipped_byte_is_reported(&Server::new().await).await;
}

#[tokio::test]
async fn what_a_server_has_elsewhere_or_not_any_more_is_reported() {
    what_is_elsewhere_or_gone_is_reported(&Server::new().await).await;
}
