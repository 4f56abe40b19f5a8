//! The mod that setup installs: the plugin's function inside the client, in its own marketplace beside the
//! settings.
//!
//! Its text is the plugin's, with this program's path instead of a name on `PATH`. It is installed only for
//! all sessions of a person: where nobody can be asked, the client loads no mod that a project's settings
//! name.

use std::path::{Path, PathBuf};

use crate::client::settings::read_file;

const TEXT: &str = include_str!("../../../../plugin/hooks/guard.ts");
const TYPES: &str = include_str!("../../../../plugin/types/guard.d.ts");

const MANIFEST: &str = "mod/.claude-plugin/plugin.json";

/// Its files in a directory of the client, with their contents.
pub(super) fn files(dir: &Path, program: &str) -> [(PathBuf, String); 5] {
    let program = serde_json::to_string(program).unwrap_or_default();
    let text = TEXT
        .replace(
            "const PROGRAM = 'ekiden'",
            &format!("const PROGRAM = {program}"),
        )
        .replace("['--mod', '--plugin']", "['--mod']")
        .replace("plugin: 'ekiden'", "plugin: 'ekiden-mod'");
    let types = TYPES.replace("    ekiden: {", "    'ekiden-mod': {");
    let version = env!("CARGO_PKG_VERSION");
    let about =
        "Watches the context of every session, inside Claude Code. Installed by `ekiden setup`.";
    let author = r#"{ "name": "The ekiden authors" }"#;
    let manifest = format!(
        "{{\n  \"name\": \"ekiden-mod\",\n  \"version\": \"{version}\",\n  \"description\": \"{about}\",\n  \"author\": {author},\n  \
         \"types\": \"./types/guard.d.ts\"\n}}\n"
    );
    let market = format!(
        "{{\n  \"name\": \"ekiden-setup\",\n  \"description\": \"What `ekiden setup` brings\",\n  \"owner\": {author},\n  \"plugins\": [\n    {{ \"name\": \"ekiden-mod\", \"source\": \
         \"./mod\", \"description\": \"{about}\" }}\n  ]\n}}\n"
    );
    let at = |name: &str| root(dir).join(name);
    [
        (at(".claude-plugin/marketplace.json"), market),
        (at(MANIFEST), manifest),
        (
            at("mod/hooks/hooks.json"),
            "{\n  \"modules\": [\"./guard.ts\"],\n  \"hooks\": {}\n}\n".to_owned(),
        ),
        (at("mod/hooks/guard.ts"), text),
        (at("mod/types/guard.d.ts"), types),
    ]
}

/// The version of ekiden that installed it in a directory of the client.
pub fn version(dir: &Path) -> Option<String> {
    let manifest = read_file(&root(dir).join(MANIFEST))?;
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).ok()?;
    manifest["version"].as_str().map(str::to_owned)
}

pub(super) fn root(dir: &Path) -> PathBuf {
    dir.join("ekiden")
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: AGT-18, OPS-02
    #[test]
    fn the_text_is_the_plugins_but_for_its_names() {
        let files = files(Path::new("/home/dev/.claude"), "/o \"p/ekiden");
        let of = |name: &str| {
            let found = files.iter().find(|(path, _)| path.ends_with(name));
            found.unwrap().1.as_str()
        };
        let text = of("guard.ts");
        assert!(
            text.contains(r#"const PROGRAM = "/o \"p/ekiden""#),
            "{text}"
        );
        assert!(text.contains("const FLAGS = ['--mod']\n"), "{text}");
        assert_eq!(text.matches("plugin: 'ekiden-mod'").count(), 2);
        assert!(!text.contains("plugin: 'ekiden'"));
        assert!(of("guard.d.ts").contains("'ekiden-mod': { watch"));
        for name in ["marketplace.json", "plugin.json", "hooks.json"] {
            assert!(serde_json::from_str::<serde_json::Value>(of(name)).is_ok());
        }
    }
}
