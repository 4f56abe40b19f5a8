//! Enums whose variants have names in settings, files and messages.

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("one of {}", .0.join(", "))]
pub struct UnknownName(pub(crate) Vec<&'static str>);

/// A table of an enum's variants with their names: it converts between the enum and its name as text.
macro_rules! names {
    ($enum:ident { $($variant:ident: $name:literal,)* }) => {
        impl $enum {
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }

        impl std::fmt::Display for $enum {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl std::str::FromStr for $enum {
            type Err = $crate::names::UnknownName;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let unknown = || $crate::names::UnknownName(Self::ALL.map(Self::name).to_vec());
                let mut all = Self::ALL.into_iter();
                all.find(|one| one.name() == text).ok_or_else(unknown)
            }
        }
    };
}
pub(crate) use names;
