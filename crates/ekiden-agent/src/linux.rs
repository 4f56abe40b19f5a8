//! Linux: subreapers, the parent-death signal, `/proc`, pidfds. All of RUN-10 holds here.
//!
//! A subreaper inherits the orphans among its descendants, however they were orphaned. A tool that forked twice
//! or created its own session becomes a child of the nearest living keeper. So "this keeper has no children"
//! means "nothing that the agent started is alive".
//!
//! Needs Linux 5.3 (pidfds) and a mounted `/proc`.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CStr;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, child_subreaper, getpid, getppid, getuid, pidfd_open,
    pidfd_send_signal, set_child_subreaper, set_parent_process_death_signal,
};

use crate::ending::Process;
use crate::lineage::{self, Ancestor};
use crate::unix::{Deadline, pid_of, poll_until};

/// A keeper's name in process lists.
const KEEPER_NAME: &CStr = c"ekiden-keeper";

/// From now on, orphans among this process's descendants become its children.
pub(crate) fn adopt_orphans() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Whether [`adopt_orphans`] was called in this process.
pub(crate) fn adopts_orphans() -> bool {
    matches!(child_subreaper(), Ok(Some(_)))
}

/// Makes this process get SIGTERM when `parent` dies. SIGKILL would leave an agent's tools alive.
/// Async-signal-safe.
pub(crate) fn die_with(parent: Pid) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::TERM))?;
    if getppid() == Some(parent) {
        Ok(())
    } else {
        Err(Errno::SRCH.into())
    }
}

/// Gives this process its own name in process lists. Nobody else can give a keeper this name or take it away.
pub(crate) fn show_as_keeper() {
    // A keeper under another name works just as well.
    let _ = rustix::thread::set_name(KEEPER_NAME);
}

/// A process and its parent's pid.
pub(crate) fn ancestor(pid: Pid) -> Option<(Option<Pid>, Ancestor)> {
    let stat = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    parse_ancestor(pid, &stat)
}

/// Reads `pid (name) state parent`, and the time of the start as the 22nd field.
fn parse_ancestor(pid: Pid, stat: &[u8]) -> Option<(Option<Pid>, Ancestor)> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let name_begin = stat.iter().position(|byte| *byte == b'(')? + 1;
    let text = str::from_utf8(&stat[name_end + 1..]).ok()?;
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    let ancestor = Ancestor {
        pid: pid.as_raw_nonzero().get(),
        started: fields.get(19)?.parse().ok()?,
        is_keeper: stat.get(name_begin..name_end)? == KEEPER_NAME.to_bytes(),
    };
    Some((pid_of(fields.get(1)?.parse().ok()?), ancestor))
}

pub(crate) fn peer(socket: &UnixStream) -> Option<i32> {
    let peer = rustix::net::sockopt::socket_peercred(socket).ok()?;
    Some(peer.pid.as_raw_nonzero().get())
}

/// Looks for the socket in the system's table, then for the process that holds it.
pub(crate) fn may_be_kept(client: SocketAddr, ours: SocketAddr) -> bool {
    match client_inode(client, ours) {
        // A separate network has its own table. Then only an address shows that a client is on this machine.
        None => client.ip().is_loopback() || client.ip() == ours.ip(),
        // Nobody holds it any more.
        Some(0) => true,
        Some(inode) => (0..HOLDER_LOOKS)
            .find_map(|_| holder_is_kept(inode))
            .unwrap_or(true),
    }
}

/// How often to look for the holder of a socket if processes end meanwhile.
const HOLDER_LOOKS: usize = 5;

/// The number of the client's socket in `/proc/net`. An IPv6 socket may have an IPv4 address.
fn client_inode(client: SocketAddr, ours: SocketAddr) -> Option<u64> {
    let in_table = |table: &str, form: fn(SocketAddr) -> Option<String>| {
        let ends = [form(client)?, form(ours)?];
        let rows = fs::read_to_string(format!("/proc/net/{table}")).ok()?;
        inode_of(&rows, &ends)
    };
    in_table("tcp", table_form_v4).or_else(|| in_table("tcp6", |at| Some(table_form_v6(at))))
}

/// Rows are `number: local remote state queues timer retransmits user timeout inode ...`.
fn inode_of(rows: &str, ends: &[String; 2]) -> Option<u64> {
    let mut rows = rows
        .lines()
        .map(|row| row.split_ascii_whitespace().collect::<Vec<_>>());
    let row = rows.find(|row| row.get(1..3).is_some_and(|both| both == ends))?;
    row.get(9)?.parse().ok()
}

fn table_form_v4(at: SocketAddr) -> Option<String> {
    match at.ip().to_canonical() {
        IpAddr::V4(ip) => {
            let word = u32::from_ne_bytes(ip.octets());
            Some(format!("{word:08X}:{:04X}", at.port()))
        }
        IpAddr::V6(_) => None,
    }
}

fn table_form_v6(at: SocketAddr) -> String {
    let ip = match at.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let octets = ip.octets();
    let (words, _) = octets.as_chunks::<4>();
    let words = words
        .iter()
        .map(|word| format!("{:08X}", u32::from_ne_bytes(*word)));
    format!("{}:{:04X}", words.collect::<String>(), at.port())
}

/// Whether a process below a keeper holds this socket, or may hold it: nobody may see what some processes hold.
/// None if a process ended during the search, since another may hold the socket instead.
fn holder_is_kept(inode: u64) -> Option<bool> {
    let (mut is_found, mut is_in_doubt, mut has_gone) = (false, false, false);
    for pid in pids().unwrap_or_default() {
        match holds(pid, inode) {
            Ok(true) if lineage::is_kept(pid) => return Some(true),
            Ok(true) => is_found = true,
            Ok(false) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => has_gone = true,
            Err(_) => is_in_doubt |= lineage::is_kept(pid),
        }
    }
    match (is_found, is_in_doubt, has_gone) {
        (true, ..) => Some(false),
        (false, true, _) => Some(true),
        (false, false, true) => None,
        // Such as sshd, which nobody may inspect.
        (false, false, false) => Some(false),
    }
}

fn holds(pid: Pid, inode: u64) -> io::Result<bool> {
    let socket = format!("socket:[{inode}]");
    let mut files = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero()))?;
    // A file closed meanwhile is not the socket of a client that waits for its answer.
    Ok(files.any(|file| {
        let target = file.and_then(|file| fs::read_link(file.path()));
        target.is_ok_and(|target| target.as_os_str() == socket.as_str())
    }))
}

/// Whether a keeper without children has nothing left to end.
pub(crate) fn childless_is_done(_agent: Option<Pid>) -> bool {
    true
}

/// Everything alive that descends from the keeper `root`.
pub(crate) fn family(root: Pid, _agent: Option<Pid>) -> Vec<Process> {
    let table = ProcessTable::read();
    table
        .below(root, &BTreeSet::new())
        .filter(|process| !process.zombie)
        .collect()
}

/// Everything below `root`, dead or alive, except what is below the `spared` ones.
pub(crate) fn orphans(root: Pid, spared: &BTreeSet<i32>) -> Vec<Process> {
    ProcessTable::read().below(root, spared).collect()
}

/// Sends SIGKILL to every process of this user with a mark among its environment variables, except those spared,
/// this one and its ancestors, and waits until they are dead or `until` has come. Returns how many were killed
/// and how many of these still live.
pub(crate) fn kill_marked(
    is_mark: &dyn Fn(&[u8]) -> bool,
    is_spared: &dyn Fn(Pid) -> bool,
    until: Deadline,
) -> io::Result<(usize, usize)> {
    let mut killed = 0;
    loop {
        let targets = marked(&|pid| bears(pid, is_mark) && !is_spared(pid))?;
        let living = wait_for_all(&targets, until)?;
        killed += targets.len();
        if targets.is_empty() || living > 0 {
            return Ok((killed, living));
        }
    }
}

/// Kills the marked processes through pidfds, so that a reused pid cannot hit a stranger.
fn marked(is_meant: &dyn Fn(Pid) -> bool) -> io::Result<Vec<OwnedFd>> {
    let ours = ProcessTable::read().ancestors(getpid());
    let mut targets = Vec::new();
    for pid in pids()? {
        let foreign = ours.contains(&pid.as_raw_nonzero().get()) || !is_meant(pid);
        let Some(target) = (!foreign)
            .then(|| pidfd_open(pid, PidfdFlags::empty()).ok())
            .flatten()
        else {
            continue;
        };
        // Checked again: the descriptor may belong to a later process with the same pid.
        if is_meant(pid) && pidfd_send_signal(&target, Signal::KILL).is_ok() {
            targets.push(target);
        }
    }
    Ok(targets)
}

fn bears(pid: Pid, is_mark: &dyn Fn(&[u8]) -> bool) -> bool {
    let dir = format!("/proc/{}", pid.as_raw_nonzero());
    let own = fs::metadata(&dir).is_ok_and(|meta| meta.uid() == getuid().as_raw());
    let environ = own
        .then(|| fs::read(Path::new(&dir).join("environ")).ok())
        .flatten();
    environ.is_some_and(|bytes| bytes.split(|byte| *byte == 0).any(is_mark))
}

fn wait_for_all(targets: &[OwnedFd], until: Deadline) -> io::Result<usize> {
    let mut living = 0;
    for target in targets {
        let mut fds = [PollFd::new(target, PollFlags::IN)];
        while fds[0].revents().is_empty() && !until.passed() {
            poll_until(&mut fds, Some(until))?;
        }
        living += usize::from(fds[0].revents().is_empty());
    }
    Ok(living)
}

/// One reading of `/proc`. Processes come and go while it is read, so a caller must check again before it acts.
struct ProcessTable(BTreeMap<i32, (i32, Process)>);

impl ProcessTable {
    fn read() -> Self {
        // Without `/proc` nothing is found, and the known process groups must do.
        let pids = pids().unwrap_or_default();
        let rows = pids.filter_map(|pid| Some((pid.as_raw_nonzero().get(), read_stat(pid)?)));
        Self(rows.collect())
    }

    fn below<'a>(
        &'a self,
        root: Pid,
        spared: &'a BTreeSet<i32>,
    ) -> impl Iterator<Item = Process> + 'a {
        let root = root.as_raw_nonzero().get();
        self.0
            .iter()
            .filter(move |(pid, _)| self.descends(**pid, root, spared))
            .map(|(_, row)| row.1)
    }

    /// Climbs from `pid` to `root`. The number of steps is bounded, since pids that were reused
    /// during the reading could form a ring.
    fn descends(&self, pid: i32, root: i32, spared: &BTreeSet<i32>) -> bool {
        let mut at = pid;
        for _ in 0..self.0.len() {
            if spared.contains(&at) {
                return false;
            }
            match self.0.get(&at) {
                Some((parent, _)) if *parent == root => return true,
                Some((parent, _)) => at = *parent,
                None => return false,
            }
        }
        false
    }

    /// `pid` and all its ancestors.
    fn ancestors(&self, pid: Pid) -> BTreeSet<i32> {
        let mut found = BTreeSet::new();
        let mut at = pid.as_raw_nonzero().get();
        while found.insert(at) {
            at = self.0.get(&at).map_or(0, |(parent, _)| *parent);
        }
        found
    }
}

fn pids() -> io::Result<impl Iterator<Item = Pid> + Default> {
    let numbers = fs::read_dir("/proc")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(pid_of)
        .collect::<Vec<_>>();
    Ok(numbers.into_iter())
}

/// A row of the table: the parent's pid and the process.
fn read_stat(pid: Pid) -> Option<(i32, Process)> {
    let stat = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    parse_stat(pid, &stat)
}

/// Reads `pid (name) state parent group ...`, where the name may contain anything, including `)`.
fn parse_stat(pid: Pid, stat: &[u8]) -> Option<(i32, Process)> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let mut fields = str::from_utf8(&stat[name_end + 1..])
        .ok()?
        .split_ascii_whitespace();
    let zombie = matches!(fields.next()?, "Z" | "X");
    let parent = fields.next()?.parse().ok()?;
    let group = pid_of(fields.next()?.parse().ok()?);
    Some((parent, Process { pid, group, zombie }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pid(raw: i32) -> Pid {
        Pid::from_raw(raw).expect("a positive number")
    }

    fn table(rows: &[(i32, i32)]) -> ProcessTable {
        let row = |&(number, parent): &(i32, i32)| {
            (
                number,
                (
                    parent,
                    Process {
                        pid: pid(number),
                        group: None,
                        zombie: false,
                    },
                ),
            )
        };
        ProcessTable(rows.iter().map(row).collect())
    }

    fn below(rows: &[(i32, i32)], root: i32, spared: &[i32]) -> Vec<i32> {
        let spared = spared.iter().copied().collect();
        table(rows)
            .below(pid(root), &spared)
            .map(|process| process.pid.as_raw_nonzero().get())
            .collect()
    }

    #[test]
    fn a_name_may_hold_anything() {
        let (parent, process) = parse_stat(pid(7), b"7 (a) Z 1 (b) S 3 5 5 0 -1").expect("a row");
        assert_eq!(
            (parent, process.group, process.zombie),
            (3, Some(pid(5)), false)
        );
        let (_, process) = parse_stat(pid(7), b"7 (sh) Z 3 0 0").expect("a row");
        assert_eq!((process.group, process.zombie), (None, true));
        // A process has no group any more while it is being taken apart.
        let (_, process) = parse_stat(pid(7), b"7 (sh) X 3 -1 -1").expect("a row");
        assert_eq!((process.group, process.zombie), (None, true));
        for bad in ["", "7 (sh", "7 (sh) S", "7 (sh) S x 5", "7 (sh) S 3"] {
            assert!(parse_stat(pid(7), bad.as_bytes()).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_keeper_is_known_by_its_name_and_when_it_started() {
        let tail = "S 3 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 8812 1 2";
        let of = |name: &str| parse_ancestor(pid(7), format!("7 ({name}) {tail}").as_bytes());
        let (parent, keeper) = of("ekiden-keeper").expect("a row");
        assert_eq!((parent, keeper.started), (Some(pid(3)), 8812));
        assert!(keeper.is_keeper);
        for other in ["ekiden", "ekiden-keeper)", "(ekiden-keeper"] {
            assert!(!of(other).expect("a row").1.is_keeper, "{other}");
        }
        assert!(parse_ancestor(pid(7), b"7 (sh) S 3").is_none());
    }

    // shows: SEC-03
    #[test]
    fn the_clients_end_of_a_connection_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let client = std::net::TcpStream::connect(listener.local_addr().expect("bound"));
        let client = client.expect("a connection");
        let (server, from) = listener.accept().expect("a connection");
        let ours = server.local_addr().expect("connected");
        let inode = client_inode(from, ours).expect("a row");
        assert!(holds(getpid(), inode).expect("our own files"));
        assert!(!holds(getpid(), inode + 1_000_000).expect("our own files"));
        drop(client);
        // Another test may be starting a process, which has our files until its program runs.
        let is_let_go = || {
            std::thread::sleep(std::time::Duration::from_millis(10));
            may_be_kept(from, ours)
        };
        assert!((0..500).any(|_| is_let_go()), "nobody holds it any more");
        assert!(!may_be_kept(
            "192.0.2.7:50".parse().expect("an address"),
            ours
        ));
        assert!(may_be_kept(
            "127.0.0.1:1".parse().expect("an address"),
            ours
        ));
    }

    // shows: SEC-03
    #[test]
    fn sockets_are_found_by_both_ends_in_both_tables() {
        let at = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let four = [at("127.0.0.1:8080"), at("127.0.0.2:7717")];
        let ends = four.map(|at| table_form_v4(at).expect("IPv4"));
        if cfg!(target_endian = "little") {
            assert_eq!(ends, ["0100007F:1F90", "0200007F:1E25"]);
            assert_eq!(
                table_form_v6(four[0]),
                "0000000000000000FFFF00000100007F:1F90"
            );
            assert_eq!(
                table_form_v6(at("[::1]:80")),
                "00000000000000000000000001000000:0050"
            );
        }
        let [client, ours] = &ends;
        let tail = "01 00000000:00000000 00:00000000 00000000 1000 0";
        let rows = format!(
            "  sl  local_address rem_address ...\n   0: {ours} {client} {tail} 41 1\n   1: {client} {ours} {tail} 42 1\n"
        );
        assert_eq!(inode_of(&rows, &ends), Some(42));
        assert_eq!(inode_of("torn row", &ends), None);
    }

    #[test]
    fn descendants_are_found_at_any_depth() {
        let rows = [(1, 0), (10, 1), (11, 10), (12, 11), (20, 1), (21, 20)];
        assert_eq!(below(&rows, 10, &[]), [11, 12]);
        assert_eq!(below(&rows, 1, &[20]), [10, 11, 12]);
        assert_eq!(below(&rows, 12, &[]), [0; 0]);
    }

    #[test]
    fn a_ring_of_reused_pids_ends() {
        assert_eq!(below(&[(5, 6), (6, 5)], 1, &[]), [0; 0]);
    }

    #[test]
    fn this_process_is_below_its_parent() {
        let parent = getppid().expect("a parent");
        assert!(
            family(parent, None)
                .iter()
                .any(|process| process.pid == getpid())
        );
        assert!(
            ProcessTable::read()
                .ancestors(getpid())
                .contains(&parent.as_raw_nonzero().get())
        );
    }
}
