//! What went wrong between this process and a server, as the port's errors.

use super::address::Endpoint;
use super::script::Odd;
use crate::port::StoreError;
use redis::{ErrorKind, RedisError, ServerErrorKind};

/// Whether an operation changes the store, which decides what a lost reply means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// A lost reply loses nothing.
    Reads,
    /// After a lost reply nobody knows.
    Writes,
}

/// Nothing was sent.
pub(super) fn unreachable(server: &Endpoint, error: &RedisError) -> StoreError {
    let (server, is_tls) = (server.name(), server.is_tls());
    if is_refused_login(error) {
        return StoreError::unavailable(format!(
            "{server} does not admit this program: check user and password ({})",
            error.code().unwrap_or("no code")
        ));
    }
    if matches!(
        error.kind(),
        ErrorKind::Parse | ErrorKind::UnexpectedReturnType
    ) {
        return StoreError::unavailable(format!(
            "{server} answers what no Redis server would: something else listens there"
        ));
    }
    let hint = match (is_tls, error.is_connection_refusal()) {
        (_, true) => "",
        // Who does not speak TLS waits for more, and who does hangs up on whoever does not.
        (true, _) if error.is_timeout() || error.is_connection_dropped() => {
            "; is it TLS that it speaks?"
        }
        (false, _) if error.is_connection_dropped() => {
            "; if it speaks TLS, its address has to begin with rediss://"
        }
        _ => "",
    };
    StoreError::unavailable(format!("{server} cannot be reached: {error}{hint}"))
}

/// Whether the server does not take user and password.
pub(super) fn is_refused_login(error: &RedisError) -> bool {
    error.kind() == ErrorKind::AuthenticationFailed
        || matches!(error.code(), Some("WRONGPASS" | "NOAUTH"))
}

/// The request was sent; whether its effect is known depends on the error.
pub(super) fn failed(server: &str, error: &RedisError, effect: Effect) -> StoreError {
    if answered(error) {
        return refused(server, error);
    }
    let reason = if error.is_timeout() {
        format!("{server} did not answer in time")
    } else {
        format!("the connection to {server} was lost: {error}")
    };
    match effect {
        Effect::Reads => StoreError::unavailable(reason),
        Effect::Writes => StoreError::unknown(reason),
    }
}

/// An answer that makes no sense: what happened is not known.
pub(super) fn odd(effect: Effect, odd: Odd) -> StoreError {
    match effect {
        Effect::Reads => StoreError::unavailable(odd),
        Effect::Writes => StoreError::unknown(odd),
    }
}

/// Whether it was the server that answered with an error. All scripts check before they write,
/// and servers refuse a script for their own reasons before its first write.
pub(super) fn answered(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension)
}

/// Whether the server cannot write now, or not here: another may have become the master.
pub(super) fn is_misplaced(error: &RedisError) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Server(
            ServerErrorKind::ReadOnly
                | ServerErrorKind::MasterDown
                | ServerErrorKind::ClusterDown
                | ServerErrorKind::Moved
        )
    )
}

/// Whether a key is on its way to another server of the cluster, or there by now.
pub(super) fn is_elsewhere(error: &RedisError) -> bool {
    use ServerErrorKind::{Ask, Moved, TryAgain};
    matches!(error.kind(), ErrorKind::Server(Ask | Moved | TryAgain))
}

fn refused(server: &str, error: &RedisError) -> StoreError {
    let code = error.code().unwrap_or("ERR");
    let detail = error.detail().unwrap_or_default();
    let advice = match code {
        "OOM" => "it has reached its maxmemory: give it more",
        "READONLY" => "it is a replica: name the master, or the sentinels",
        "LOADING" => "it is loading its data",
        "CLUSTERDOWN" => "its cluster is down: some slots have no master",
        "MOVED" | "ASK" | "TRYAGAIN" => "the session is on its way to another server",
        "MASTERDOWN" => "it is a replica that has lost its master",
        "NOREPLICAS" => "it has fewer replicas than its min-replicas-to-write",
        "MISCONF" => "it cannot write to its disk",
        "BUSY" => "it is busy with a script",
        "NOAUTH" | "WRONGPASS" => "check user and password",
        "NOPERM" => "its user may not do what the store needs: see deploy/redis/cairn.acl",
        "ERR" if detail.contains("cluster support disabled") => {
            "it belongs to no cluster: store.redis.mode is for another server"
        }
        "ERR" if detail.starts_with("unknown command 'SENTINEL'") => {
            "it is no sentinel: store.redis.mode is for another server"
        }
        _ => {
            tracing::error!(server, error = %error, "the store's server refuses a script");
            "this should not happen: something else may be using its keys"
        }
    };
    StoreError::unavailable(format!("{server} says {code}: {advice} ({detail})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: &str) -> RedisError {
        redis::make_extension_error(code.to_owned(), Some("detail".to_owned()))
    }

    #[test]
    fn what_the_server_refuses_was_not_written() {
        for code in ["OOM", "NOREPLICAS", "NOPERM", "WRONGTYPE"] {
            let told = failed("redis at host:1", &error(code), Effect::Writes);
            let StoreError::Unavailable { reason } = told else {
                panic!("{told:?}");
            };
            assert!(reason.contains(code), "{reason}");
        }
    }

    #[test]
    fn a_lost_reply_leaves_open_what_was_written() {
        let lost = || RedisError::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        let told = failed("redis at host:1", &lost(), Effect::Writes);
        assert!(matches!(told, StoreError::Unknown { .. }));
        let told = failed("redis at host:1", &lost(), Effect::Reads);
        assert!(matches!(told, StoreError::Unavailable { .. }));
    }
}
