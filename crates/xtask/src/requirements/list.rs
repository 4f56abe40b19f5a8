//! The list of requirements as data.

use std::collections::BTreeSet;

use serde::Deserialize;

/// Where a requirement can come from.
const SOURCES: &[&str] = &["cs", "ck", "c6", "ca", "ccs", "new"];

/// Everything that a user can rely on, now or one day.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    #[serde(rename = "area")]
    pub(super) areas: Vec<Area>,
    #[serde(rename = "requirement")]
    pub(super) requirements: Vec<Requirement>,
}

/// Requirements about one thing; their ids begin with its letters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Area {
    pub(super) id: String,
    pub(super) title: String,
}

/// One testable promise.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Requirement {
    /// Never changes, and is never used again.
    pub(super) id: String,
    pub(super) text: String,
    /// The programs before ekiden that had it.
    pub(super) from: Vec<String>,
    /// It is promised now.
    pub(super) done: bool,
    /// How far, if that is not all of it.
    pub(super) note: Option<String>,
}

impl List {
    /// Reads the list.
    ///
    /// # Errors
    ///
    /// The first thing in it that cannot be right.
    pub(super) fn parse(toml: &str) -> Result<Self, String> {
        let list: Self =
            toml::from_str(toml).map_err(|error| format!("cannot understand the list: {error}"))?;
        let mut seen = BTreeSet::new();
        for requirement in &list.requirements {
            list.check(requirement)?;
            if !seen.insert(&requirement.id) {
                return Err(format!("{} stands twice in the list", requirement.id));
            }
        }
        Ok(list)
    }

    /// The requirements of an area.
    pub(super) fn of<'a>(&'a self, area: &'a Area) -> impl Iterator<Item = &'a Requirement> {
        self.requirements
            .iter()
            .filter(|one| one.id.split('-').next() == Some(area.id.as_str()))
    }

    /// There is such a requirement.
    pub(super) fn knows(&self, id: &str) -> bool {
        self.requirements.iter().any(|one| one.id == id)
    }

    fn check(&self, requirement: &Requirement) -> Result<(), String> {
        let Requirement { id, text, from, .. } = requirement;
        let area = self
            .areas
            .iter()
            .any(|area| id.starts_with(&format!("{}-", area.id)));
        if !is_id(id) || !area {
            return Err(format!("`{id}` is no id of a known area"));
        }
        if text.trim().is_empty() || from.is_empty() {
            return Err(format!("{id} has no text or no origin"));
        }
        match from
            .iter()
            .find(|source| !SOURCES.contains(&source.as_str()))
        {
            Some(source) => Err(format!(
                "{id} is from `{source}`, which is none of {}",
                SOURCES.join(", ")
            )),
            None => Ok(()),
        }
    }
}

/// `REL-07` or `CHK-005`.
pub(super) fn is_id(text: &str) -> bool {
    let Some((area, number)) = text.split_once('-') else {
        return false;
    };
    let digits =
        (2..=3).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit());
    area.len() == 3 && area.bytes().all(|byte| byte.is_ascii_uppercase()) && digits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(requirements: &str) -> Result<List, String> {
        List::parse(&format!(
            "[[area]]\nid = \"REL\"\ntitle = \"t\"\n{requirements}"
        ))
    }

    fn one(id: &str, from: &str) -> String {
        format!("[[requirement]]\nid = \"{id}\"\ntext = \"t\"\nfrom = [{from}]\ndone = false\n")
    }

    #[test]
    fn a_list_is_read_or_says_what_is_wrong() {
        let list = parse(&one("REL-01", "\"new\"")).unwrap();
        assert!(list.knows("REL-01") && !list.knows("REL-02"));
        let wrong = |text: &str| parse(text).unwrap_err();
        assert_eq!(
            wrong(&one("RUN-01", "\"new\"")),
            "`RUN-01` is no id of a known area"
        );
        assert_eq!(
            wrong(&one("REL-1", "\"new\"")),
            "`REL-1` is no id of a known area"
        );
        assert_eq!(wrong(&one("REL-01", "")), "REL-01 has no text or no origin");
        assert_eq!(
            wrong(&one("REL-01", "\"x\"")),
            "REL-01 is from `x`, which is none of cs, ck, c6, ca, ccs, new"
        );
        assert_eq!(
            wrong(&one("REL-01", "\"new\"").repeat(2)),
            "REL-01 stands twice in the list"
        );
    }

    #[test]
    fn ids_have_two_or_three_digits() {
        assert!(is_id("REL-07") && is_id("CHK-005"));
        assert!(!is_id("REL-7") && !is_id("rel-07") && !is_id("REL07") && !is_id("RELY-07"));
    }
}
