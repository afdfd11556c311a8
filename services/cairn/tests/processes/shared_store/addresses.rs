//! What a store is named by: addresses, files, and what goes with them.

use crate::support::CAIRN;
use cairn_testkit::Site;

/// Sessions would go to a file that nobody looks for, with a password in its name.
#[test]
fn an_address_that_is_none_of_redis_makes_no_file() {
    let site = Site::new(CAIRN);
    for place in [
        "valkey://me:hush@a:1/0",
        "http://me:hush@a:1",
        "127.0.0.1:1",
    ] {
        let flag = site.run(&["serve", "--listen", "127.0.0.1:0", "--store", place]);
        let variable = site.run_with(&["doctor"], &[("CAIRN_STORE", place)]);
        let settings = site.run_with(&["check-config"], &[("CAIRN_STORE", place)]);
        for output in [flag, variable, settings] {
            assert_eq!(output.code, Some(2), "{place}: {output:?}");
            assert!(output.err.contains("looks like an address"), "{output:?}");
            assert!(!(output.out + &output.err).contains("hush"));
        }
    }
    let left = std::fs::read_dir(site.path()).unwrap().count();
    assert_eq!(
        left,
        std::fs::read_dir(Site::new(CAIRN).path()).unwrap().count()
    );
}

/// Nothing is sent to a server that others may reach until its address has a password, so nothing is
/// said of what it asks for: its name may not even lead anywhere.
#[test]
fn an_exposed_address_is_refused_for_what_is_known_of_it() {
    let site = Site::new(CAIRN);
    let output = site.run(&["doctor", "--store", "redis://nobody.invalid:6379"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    assert!(
        output.out.contains("its address has no password"),
        "{output:?}"
    );
    assert!(!output.out.contains("asks for no"), "{output:?}");
}

#[test]
fn what_is_wrong_with_the_servers_of_a_store_is_reported_by_name() {
    let site = Site::new(CAIRN);
    site.write("one.pem", "");
    for (settings, named) in [
        ("url = \"http://127.0.0.1:1\"", "store.redis.url"),
        ("url = \"redis://a:1,redis://b:1\"", "store.redis.url"),
        (
            "url = \"redis://a:1\"\nmode = \"sentinel\"",
            "store.redis.master",
        ),
        ("url = \"redis://a:1\"\nmode = \"many\"", "store.redis.mode"),
        (
            "url = \"redis://a:1\"\nprefix = \"{a}\"",
            "store.redis.prefix",
        ),
        (
            "url = \"rediss://a:1\"\nca_file = \"none.pem\"",
            "store.redis.ca_file",
        ),
        (
            "url = \"redis://a:1\"\nca_file = \"one.pem\"",
            "store.redis.ca_file",
        ),
        (
            "url = \"rediss://a:1\"\ncert_file = \"none.pem\"\nkey_file = \"one.pem\"",
            "store.redis.cert_file",
        ),
        (
            "url = \"rediss://a:1\"\ncert_file = \"one.pem\"",
            "store.redis.key_file",
        ),
        (
            "url = \"rediss://a:1\"\nkey_file = \"one.pem\"",
            "store.redis.cert_file",
        ),
        (
            "url = \"redis://a:1\"\nmaster_url = \"b\"",
            "store.redis.master_url",
        ),
        ("servers = 3", "store.redis.servers"),
    ] {
        site.write("other.toml", &format!("[store.redis]\n{settings}\n"));
        let output = site.run(&["check-config", "--config", "other.toml"]);
        assert_eq!(output.code, Some(2), "{settings}: {output:?}");
        assert!(output.err.contains(named), "{settings}: {}", output.err);
    }
}
