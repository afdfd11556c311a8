//! What was ever stored on Redis is read for ever: the files in `golden` are never changed, and a
//! change of the format adds one. Each is all keys of a store, as the commands that make them, one a
//! line, in which bytes that are no plain text stand as `%` and two digits; and beside it the journal
//! of its one session as it was exported then. The run in it was killed in the middle of its second
//! step.
//!
//! `CAIRN_GOLDEN=write cargo nextest run -p cairn --test shared_store -E 'test(golden)'` writes those
//! of this version into the folder of the build, and says where.

use super::{CAIRN, GATE, Gate, json, serve};
use cairn_boot::Environment;
use cairn_testkit::{Journal, RedisServer, Site, eventually};
use std::path::PathBuf;

const STORED: &str = include_str!("golden/1.redis");
const EXPORTED: &str = include_str!("golden/1.jsonl");

/// All keys, as commands.
const DUMP: &str = r"
local function word(w)
  return (string.gsub(tostring(w), '[^%w%-%._:/{}@+=,]', function(c)
    return string.format('%%%02x', string.byte(c))
  end))
end
local lines = {}
local function line(...)
  local words = {...}
  for i = 1, #words do words[i] = word(words[i]) end
  lines[#lines + 1] = table.concat(words, ' ')
end
local keys = redis.call('KEYS', '*')
table.sort(keys)
for _, key in ipairs(keys) do
  local kind = redis.call('TYPE', key).ok
  if kind == 'hash' then
    local pairs = redis.call('HGETALL', key)
    for i = 1, #pairs, 2 do line('HSET', key, pairs[i], pairs[i + 1]) end
  elseif kind == 'stream' then
    for _, entry in ipairs(redis.call('XRANGE', key, '-', '+')) do
      line('XADD', key, entry[1], unpack(entry[2]))
    end
  elseif kind == 'zset' then
    local pairs = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
    for i = 1, #pairs, 2 do line('ZADD', key, pairs[i + 1], pairs[i]) end
  else
    line('UNKNOWN', kind, key)
  end
end
return table.concat(lines, '\n')";

/// The words of a line.
fn words(line: &str) -> Vec<Vec<u8>> {
    let word = |text: &str| {
        let mut parts = text.split('%');
        let mut bytes = parts.next().unwrap().as_bytes().to_vec();
        for part in parts {
            let (digits, rest) = part.split_at(2);
            bytes.push(u8::from_str_radix(digits, 16).unwrap());
            bytes.extend(rest.bytes());
        }
        bytes
    };
    line.split(' ').map(word).collect()
}

#[test]
fn golden_files_of_redis_are_read_and_gone_on_with() {
    let server = RedisServer::start();
    for line in STORED.lines() {
        let answer = server.ask_bytes(&words(line));
        assert!(!answer.starts_with('-'), "{line}: {answer}");
    }
    let site = Site::new(CAIRN);
    site.append("cairn.toml", GATE);
    site.write("ledger.open-two", "");
    let (_serving, address) = serve(&site, &server);
    let sessions = site.run(&["sessions", "--json", "--server", &address]);
    let session = json(sessions.out.trim())["id"].as_str().unwrap().to_owned();
    let arguments = ["resume", &session, "--server", &address];
    let resumed = site.run(&arguments);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    let exported = site.run(&["export", &session, "--server", &address]).out;
    Journal::read(&exported).check_begins_with(&Journal::read(EXPORTED));
    assert!(exported.contains("run_completed"), "{exported}");
    let memory = site.run(&[
        "memory",
        "get",
        "colour",
        "--session",
        &session,
        "--server",
        &address,
    ]);
    assert_eq!(memory.out.trim(), "blue", "{memory:?}");
}

/// A store with a format that this version does not know.
#[test]
fn a_session_of_a_later_redis_format_is_left_alone_and_said_so() {
    let server = RedisServer::start();
    let mut hash = String::new();
    for line in STORED.lines() {
        let words = words(line);
        if words[0] == b"HSET" && words[2] == b"f" {
            hash = String::from_utf8(words[1].clone()).unwrap();
        }
        server.ask_bytes(&words);
    }
    server.ask(&["HSET", &hash, "f", "2"]);
    let all = || server.ask(&["HGETALL", &hash]);
    let left = all();
    let site = Site::new(CAIRN);
    site.append("cairn.toml", GATE);
    let (_serving, address) = serve(&site, &server);
    let sessions = site.run(&["sessions", "--json", "--server", &address]);
    let session = json(sessions.out.trim())["id"].as_str().unwrap().to_owned();
    let shown = site.run(&["export", &session, "--server", &address]);
    assert_eq!(shown.code, Some(1), "{shown:?}");
    assert!(shown.err.contains("newer version"), "{shown:?}");
    // It is looked at each second, and told of once.
    let looked = || {
        let info = server.ask(&["INFO", "commandstats"]);
        let mut lines = info.lines();
        let line = lines.find_map(|it| it.strip_prefix("cmdstat_evalsha:calls="));
        let count = line.and_then(|it| it.split(',').next()?.parse::<u32>().ok());
        count.unwrap_or_default()
    };
    let before = looked();
    eventually("three looks", || (looked() >= before + 3).then_some(()));
    let log = site.read("listen.log").expect("its log");
    let reported = log.matches("it is left to that").count();
    assert_eq!(reported, 1, "{log}");
    assert_eq!(
        all(),
        left,
        "nobody has claimed it, or changed anything of it"
    );
}

#[test]
fn golden_files_of_redis_can_be_written() {
    let server = RedisServer::start();
    let site = Site::new(CAIRN);
    let (mut serving, address) = serve(Gate::site(&site), &server);
    let mut run = Gate::begin(&site, &address);
    Gate::wait_for(&site, "ledger.began-one");
    let sessions = site.run(&["sessions", "--json", "--server", &address]);
    let session = json(sessions.out.trim())["id"].as_str().unwrap().to_owned();
    let set = [
        "memory",
        "set",
        "colour",
        "blue",
        "--session",
        &session,
        "--server",
        &address,
    ];
    let set = site.run(&set);
    assert_eq!(set.code, Some(0), "{set:?}");
    site.write("ledger.open-one", "");
    Gate::wait_for(&site, "ledger.began-two");
    let exported = site.run(&["export", &session, "--server", &address]).out;
    serving.kill();
    run.kill().unwrap();
    run.wait().unwrap();
    let dumped = server.ask(&["EVAL", DUMP, "0"]);
    let dumped: Vec<_> = dumped.lines().skip(1).collect();
    let dumped = dumped.join("\n") + "\n";
    assert!(!dumped.contains("UNKNOWN"), "{dumped}");
    if Environment::from_process().get("CAIRN_GOLDEN").is_some() {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        std::fs::write(folder.join("1.redis"), dumped).unwrap();
        std::fs::write(folder.join("1.jsonl"), exported).unwrap();
        panic!("written to {}", folder.display());
    }
    // Every kind of key that a golden file has is written still.
    let kinds = |text: &str| {
        let kinds = text.lines().map(|line| {
            let mut words = line.split(' ');
            let (command, key) = (words.next().unwrap(), words.next().unwrap());
            let end = key.rsplit(':').next().unwrap().to_owned();
            let is_session = end.contains('/');
            (
                command.to_owned(),
                if is_session { String::new() } else { end },
            )
        });
        kinds.collect::<std::collections::BTreeSet<_>>()
    };
    let (then, now) = (kinds(STORED), kinds(&dumped));
    assert!(then.is_subset(&now), "{then:?} {now:?}");
}
