//! `cargo xtask dist`: the files of a release, in `target/dist`.
//!
//! ```text
//! ekiden-0.1.0-x86_64-unknown-linux-gnu.tar.gz   both programs, documents, manual pages, completions, licences
//! ekiden-0.1.0.tgz                               npm: a few lines that run the program of the platform
//! ekiden-linux-x64-0.1.0.tgz                     npm: that program
//! SHA256SUMS                                     of all of them
//! ```
//!
//! The same commit gives the same archive: names are sorted, times are the commit's.

use std::path::{Path, PathBuf};

use crate::shell::{self, Program};

/// Platforms with binaries: the target for Rust, and what npm calls its system and processor.
const PLATFORMS: &[(&str, &str, &str)] = &[
    ("x86_64-unknown-linux-gnu", "linux", "x64"),
    ("aarch64-unknown-linux-gnu", "linux", "arm64"),
    ("x86_64-apple-darwin", "darwin", "x64"),
    ("aarch64-apple-darwin", "darwin", "arm64"),
];
/// `ekiden-fleet` is only in the archive: people who work in a fleet rarely install by npm.
const PROGRAMS: [&str; 2] = ["ekiden", "ekiden-fleet"];
const SHELLS: &[&str] = &["bash", "zsh", "fish"];
/// Files of the project that go into each package.
const PAPERS: &[&str] = &["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Builds for this machine, or for a target whose compiler is installed, and packs it.
pub(crate) fn run(target: Option<&str>) -> Result<(), String> {
    let host = host()?;
    let target = target.unwrap_or(&host);
    // Each alone, so that neither gets features that only the other one needs.
    for program in PROGRAMS {
        let build = ["build", "--release", "--locked", "-p", program, "--target"];
        Program::cargo(&build).arg(target).run()?;
    }
    let built = shell::target_dir().join(target).join("release");
    let out = shell::target_dir().join("dist");
    for package in pack(&built, target == host, target, &out)? {
        shell::say(&package.display().to_string());
    }
    Ok(())
}

/// Packs the programs of a directory. Returns the packages.
fn pack(built: &Path, runs_here: bool, target: &str, out: &Path) -> Result<Vec<PathBuf>, String> {
    let Some(&(_, system, processor)) = PLATFORMS.iter().find(|known| known.0 == target) else {
        let known: Vec<&str> = PLATFORMS.iter().map(|known| known.0).collect();
        return Err(format!(
            "no packages are made for {target}, only for {}",
            known.join(", ")
        ));
    };
    shell::clear(out)?;
    let mut packages = vec![archive(built, runs_here, target, out)?];
    packages.push(npm_program(&built.join("ekiden"), system, processor, out)?);
    packages.push(npm_launcher(out)?);
    let names = packages.iter().filter_map(|package| package.file_name());
    let sums = names.fold(Program::new("sha256sum", &[]).within(out), Program::arg);
    shell::write(&out.join("SHA256SUMS"), &sums.output()?)?;
    Ok(packages)
}

fn archive(built: &Path, runs_here: bool, target: &str, out: &Path) -> Result<PathBuf, String> {
    let name = format!("ekiden-{VERSION}-{target}");
    let dir = out.join(&name);
    for program in PROGRAMS {
        install(&built.join(program), &dir.join(program), "755")?;
    }
    papers(&dir)?;
    docs(&dir)?;
    // Manual pages and completions are the same on all platforms, but only a program for this machine can
    // print them.
    if runs_here {
        let teller = dir.join("ekiden");
        let pages = Program::new("git", &["ls-files", "docs/commands"]).within(shell::root());
        let pages = pages.output()?;
        let names = pages
            .lines()
            .filter_map(|page| page.strip_prefix("docs/commands/")?.strip_suffix(".md"));
        for name in names {
            let (words, page) = match name {
                "README" => (vec!["man"], "ekiden.1".to_owned()),
                command => (vec!["man", command], format!("ekiden-{command}.1")),
            };
            let manual = Program::new(&teller, &words).output()?;
            shell::write(&dir.join("man1").join(page), &manual)?;
        }
        for shell in SHELLS {
            let text = Program::new(&teller, &["completions", shell]).output()?;
            shell::write(&dir.join(format!("completions/ekiden.{shell}")), &text)?;
        }
    }
    let package = format!("{name}.tar.gz");
    let time = Program::new("git", &["log", "-1", "--format=@%ct"]).output()?;
    let options = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner"];
    Program::new("tar", &options)
        .arg(format!("--mtime={}", time.trim()))
        .arg("-czf")
        .arg(&package)
        .arg(&name)
        .within(out)
        .run()?;
    shell::remove(&dir)?;
    Ok(out.join(package))
}

/// The package with the program. npm installs only the one that fits the system and processor.
fn npm_program(
    program: &Path,
    system: &str,
    processor: &str,
    out: &Path,
) -> Result<PathBuf, String> {
    let name = format!("ekiden-{system}-{processor}");
    let dir = out.join(&name);
    install(program, &dir.join("bin/ekiden"), "755")?;
    papers(&dir)?;
    let mut package = serde_json::json!({
        "name": name,
        "version": VERSION,
        "description": format!("The program of ekiden for {system} on {processor}"),
        "license": "MIT OR Apache-2.0",
        "os": [system],
        "cpu": [processor],
    });
    if system == "linux" {
        package["libc"] = serde_json::json!(["glibc"]);
    }
    shell::write(&dir.join("package.json"), &format!("{package:#}\n"))?;
    npm_pack(&dir, out)
}

fn npm_launcher(out: &Path) -> Result<PathBuf, String> {
    let source = shell::root().join("packaging/npm");
    let dir = out.join("ekiden");
    install(
        &source.join("bin/ekiden.js"),
        &dir.join("bin/ekiden.js"),
        "755",
    )?;
    papers(&dir)?;
    docs(&dir)?;
    let text = shell::read(&source.join("package.json"))?;
    let mut package: serde_json::Value = serde_json::from_str(&text)
        .map_err(|error| format!("cannot understand packaging/npm/package.json: {error}"))?;
    package["version"] = VERSION.into();
    for (_, system, processor) in PLATFORMS {
        let name = format!("ekiden-{system}-{processor}");
        package["optionalDependencies"][name] = VERSION.into();
    }
    shell::write(&dir.join("package.json"), &format!("{package:#}\n"))?;
    npm_pack(&dir, out)
}

fn npm_pack(dir: &Path, out: &Path) -> Result<PathBuf, String> {
    let said = Program::new("npm", &["pack", "--silent", "--pack-destination"])
        .arg(out)
        .within(dir)
        .output()?;
    shell::remove(dir)?;
    Ok(out.join(said.trim()))
}

fn papers(dir: &Path) -> Result<(), String> {
    PAPERS
        .iter()
        .try_for_each(|name| install(&shell::root().join(name), &dir.join(name), "644"))
}

/// The documents, which the README and messages name.
fn docs(dir: &Path) -> Result<(), String> {
    let root = shell::root();
    let files = Program::new("git", &["ls-files", "docs"]).within(root);
    let files = files.output()?;
    files
        .lines()
        .try_for_each(|name| install(&root.join(name), &dir.join(name), "644"))
}

fn install(from: &Path, to: &Path, mode: &str) -> Result<(), String> {
    Program::new("install", &["-D", "-m", mode])
        .arg(from)
        .arg(to)
        .run()
}

fn host() -> Result<String, String> {
    let version = Program::new("rustc", &["-vV"]).output()?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned)
        .ok_or_else(|| "`rustc -vV` names no host".to_owned())
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "the test installs packages and runs what comes of them"
)]
mod tests {
    use std::process::{Command, Output, Stdio};
    use std::time::Duration;

    use super::*;

    /// A directory of npm's with these packages, as a person would have it. Nothing is asked of a registry.
    fn installed(dir: &Path, packages: &[&PathBuf]) {
        shell::write(&dir.join("package.json"), "{}").unwrap();
        let install = [
            "install",
            "--offline",
            "--no-audit",
            "--no-fund",
            "--silent",
        ];
        let install = Program::new("npm", &install).within(dir);
        let install = packages.iter().fold(install, Program::arg);
        install.run().unwrap();
    }

    fn launcher(dir: &Path) -> Command {
        let mut command = Command::new(dir.join("node_modules/.bin/ekiden"));
        command.stdin(Stdio::null());
        command
    }

    fn said(output: &Output) -> (Option<i32>, String, String) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    }

    // shows: OPS-05
    #[test]
    fn the_packages_of_npm_run_the_program_and_pass_on_words_codes_and_signals() {
        let scratch = shell::target_dir().join("dist-test");
        shell::clear(&scratch).unwrap();
        let built = scratch.join("built");
        let script = "#!/bin/sh\n\
            [ \"$1\" = wait ] || { echo \"ran: $*\"; exit 3; }\n\
            trap 'echo told; exit 7' TERM\necho ready\nwhile :; do sleep 0.1; done\n";
        for program in PROGRAMS {
            shell::write(&built.join(program), script).unwrap();
        }
        let target = host().unwrap();
        let packages = pack(&built, false, &target, &scratch.join("dist")).unwrap();
        let [archive, own, launched] = &packages[..] else {
            panic!("{packages:?}")
        };
        let list = Program::new("tar", &["-tzf"])
            .arg(archive)
            .output()
            .unwrap();
        let name = format!("ekiden-{VERSION}-{target}");
        for file in ["ekiden", "ekiden-fleet", "LICENSE-MIT", "docs/fleet.md"] {
            assert!(list.contains(&format!("{name}/{file}\n")), "{list}");
        }
        let check = Program::new("sha256sum", &["--check", "--quiet", "SHA256SUMS"]);
        check.within(&scratch.join("dist")).run().unwrap();

        let dir = scratch.join("whole");
        installed(&dir, &[own, launched]);
        let output = launcher(&dir).args(["run", "a b"]).output().unwrap();
        assert_eq!(
            said(&output),
            (Some(3), "ran: run a b\n".into(), String::new())
        );
        let mut waiting = launcher(&dir);
        let waiting = waiting.arg("wait").stdout(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_secs(1));
        let id = waiting.id().to_string();
        Program::new("kill", &["-TERM", &id]).run().unwrap();
        let output = waiting.wait_with_output().unwrap();
        assert_eq!(
            said(&output),
            (Some(7), "ready\ntold\n".into(), String::new())
        );

        let dir = scratch.join("without");
        installed(&dir, &[launched]);
        let (code, out, complaint) = said(&launcher(&dir).output().unwrap());
        assert_eq!((code, &*out), (Some(69), ""));
        assert!(
            complaint.starts_with("error: npm left out the package"),
            "{complaint}"
        );
        shell::remove(&scratch).unwrap();
    }

    #[test]
    fn a_platform_without_packages_is_told() {
        let failure = pack(Path::new("x"), false, "sparc-sun-solaris", Path::new("y"));
        assert!(
            failure
                .unwrap_err()
                .starts_with("no packages are made for sparc-sun-solaris, only for")
        );
    }
}
