//! The way to a server, on which answers get lost.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Stands before a server, and can lose its answers together with their connection.
pub(crate) struct Proxy {
    port: u16,
    cuts: Arc<AtomicBool>,
}

impl Proxy {
    pub(crate) fn before(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let proxy = Self {
            port: listener.local_addr().expect("its address").port(),
            cuts: Arc::default(),
        };
        let cuts = proxy.cuts.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else {
                    continue;
                };
                let ends = || (client.try_clone(), server.try_clone());
                if let ((Ok(from), Ok(to)), (Ok(back), Ok(answers))) = (ends(), ends()) {
                    std::thread::spawn(move || forward(from, to, &AtomicBool::new(false)));
                    let cuts = cuts.clone();
                    std::thread::spawn(move || forward(answers, back, &cuts));
                }
            }
        });
        proxy
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The next answer does not arrive.
    pub(crate) fn cut(&self) {
        self.cuts.store(true, Ordering::SeqCst);
    }
}

/// Passes on what comes, until either side has gone or a cut is due.
fn forward(mut from: TcpStream, mut to: TcpStream, cuts: &AtomicBool) {
    let mut part = [0; 65536];
    while let Ok(length @ 1..) = from.read(&mut part) {
        if cuts.swap(false, Ordering::SeqCst) || to.write_all(&part[..length]).is_err() {
            break;
        }
    }
    // The other direction ends with it.
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}
