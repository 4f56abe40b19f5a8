//! `ekiden dash`: all runs of this user as web pages on this machine.
//!
//! ```text
//! browser ──► server ──► access (token, cookie, Host, Origin) ──► pages ──► runs ── a thread that reads logs
//! ```
//!
//! It only reads: the engines do not know about it. One place decides what a request may do, before any
//! page. With `--steer` a page can run [commands](steer).

mod access;
mod pages;
mod runs;
mod server;
mod steer;

use std::ffi::OsString;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::thread;

use clap::Args;
use ekiden_agent::{detached, lineage};
use ekiden_core::text::in_full;

use self::access::Access;
use self::runs::Runs;
use self::server::Site;
use super::Invocation;
use super::report::OPENER;
use crate::exit::Exit;
use crate::failure::{Failure, OrFail as _};
use crate::output::Output;
use crate::output::json::{Fields, fields};
use crate::settings::flags::{Asking, Typed};

const CANNOT_SERVE: &str = "cannot serve pages";

/// Show all your runs as web pages on this machine
///
/// Prints an address with an access token; anyone who has it can read everything in your runs, with secrets masked. The
/// pages are live, need no JavaScript, and contact no other machine. ctrl-c ends the server; the runs continue.
///
/// With `--steer`, anyone who has the address can also pause and stop runs, change their limits and answer them, each after
/// a confirmation. The pages refuse sessions of ekiden.
#[derive(Args)]
pub struct DashArgs {
    /// The port to listen on; 0 for any free port
    #[arg(long, default_value_t = 7717, value_name = "N")]
    port: u16,
    /// The address to listen on, for other machines [default: this machine only]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<IpAddr>,
    /// Let the pages steer the runs
    #[arg(long)]
    steer: bool,
    /// Open the pages in the browser
    #[arg(long)]
    open: bool,
    #[command(flatten)]
    typed: Typed<Asking>,
}

pub fn dash(args: &DashArgs, output: &mut Output) -> Result<Exit, Failure> {
    let invocation = Invocation::looking(args.typed.flags(), output)?;
    if args.steer {
        check_steering(&invocation)?;
    }
    let home = invocation.environment.state_home();
    let home = home.ok_or_else(|| Failure::no_home("your runs"))?;
    let ip = args.listen.unwrap_or(Ipv4Addr::LOCALHOST.into());
    let wanted = SocketAddr::new(ip, args.port);
    let listener = TcpListener::bind(wanted).map_err(|error| cannot_listen(wanted, &error))?;
    let at = listener.local_addr().or_fail(Exit::Bug, CANNOT_SERVE)?;
    let access = Access::new(at);
    if !ip.is_loopback() {
        output.warn("the connection is not encrypted: others on the network can read it");
    }
    match invocation.json()? {
        true => output.json(&Fields::versioned().and(fields! { "address": access.address() })),
        false => output.answer(&format!("{}\n", access.address())),
    }
    if output.is_broken() {
        // Nobody could open the pages.
        return Ok(Exit::Done);
    }
    if args.open {
        open(&access, output);
    }
    let runs = Runs::start(home.join("ekiden")).or_fail(Exit::Bug, CANNOT_SERVE)?;
    let site = Site {
        access,
        runs,
        steer: args.steer,
    };
    server::serve(listener, site).or_fail(Exit::Bug, CANNOT_SERVE)?;
    Ok(Exit::Done)
}

/// A page that steers must tell a person's browser from a session of ekiden.
fn check_steering(invocation: &Invocation) -> Result<(), Failure> {
    let refused = |text: &str| Failure::new(Exit::NotPermitted, text);
    if !lineage::TELLS_KEPT_CLIENTS {
        let text =
            "this system cannot tell whether a request comes from a session, so pages cannot steer";
        return Err(refused(text).hint("`ekiden stop`, `pause`, `limits` and `answer` steer a run"));
    }
    if invocation.environment.is_inside_a_session() {
        let text = "a session of ekiden cannot let pages steer runs";
        return Err(refused(text).hint("start it in a terminal of your own"));
    }
    Ok(())
}

/// It can be opened by hand as well.
fn open(access: &Access, output: &mut Output) {
    let address = OsString::from(access.address_for_once());
    match detached::start(OPENER.as_ref(), &[address], Path::new("/")) {
        // It may stay as long as the browser.
        Ok(mut opener) => drop(thread::spawn(move || {
            if let Ok(status) = opener.wait()
                && !status.success()
            {
                let text = format!("`{OPENER}` ended with {status}; open the address");
                Output::of_process().warn(&text);
            }
        })),
        Err(error) => output.warn(&format!(
            "cannot start `{OPENER}`: {error}; open the address"
        )),
    }
}

fn cannot_listen(wanted: SocketAddr, error: &std::io::Error) -> Failure {
    let text = format!("cannot listen on {wanted}: {}", in_full(error));
    let failure = Failure::new(Exit::Unreachable, text);
    if error.kind() == ErrorKind::AddrInUse {
        failure.hint("`--port 0` takes any that is free")
    } else if error.kind() == ErrorKind::AddrNotAvailable {
        failure.hint("`--listen` needs an address of this machine; 0.0.0.0 is all of them")
    } else {
        failure
    }
}
