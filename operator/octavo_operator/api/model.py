"""`spec.model`: which model is served, and where it comes from."""

from typing import Annotated

from pydantic import ConfigDict, Field

from octavo_operator.api.base import Name, Schema, rule, rules


class SecretKeyRef(Schema):
    """A key of a Secret in the service's namespace."""

    name: Name = Field(description="Name of the Secret.")
    key: Name = Field("token", description="Key within the Secret.")


class Credentials(Schema):
    """What the model's source asks for."""

    secret_ref: SecretKeyRef = Field(
        description="Access token of the Hugging Face hub; mounted as a file, never an environment variable."
    )


class ModelSpec(Schema):
    """Which model is served, and where it comes from."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.uri.matches('^(bundled|file|pvc|hf)://')",
                "model.uri: use bundled://name, file:///path, pvc://claim/path or hf://org/name; "
                "other sources, s3:// and oci:// among them, are not supported",
            ),
            rule(
                "!self.uri.startsWith('bundled://') || self.uri.matches('^bundled://[a-z0-9]([a-z0-9._-]*[a-z0-9])?$')",
                "model.uri: bundled:// takes the name of a model inside the engine image, "
                "as in bundled://smollm2-135m-instruct",
            ),
            rule(
                "!self.uri.startsWith('file://') || self.uri.matches('^file:///[^/]')",
                "model.uri: file:// takes an absolute path inside the engine image, as in file:///models/mine",
            ),
            rule(
                "!self.uri.startsWith('pvc://') || self.uri.matches('^pvc://[a-z0-9]([a-z0-9.-]*[a-z0-9])?(/[^/]+)*$')",
                "model.uri: pvc:// takes a claim's name and a path within it, as in pvc://models/llama",
            ),
            rule(
                "!self.uri.startsWith('hf://') || self.uri.matches('^hf://[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$')",
                "model.uri: hf:// takes organization and name, as in hf://HuggingFaceTB/SmolLM2-135M-Instruct",
            ),
            rule(
                "!self.uri.matches('(^|/)[.][.](/|$)')",
                "model.uri: '..' is not allowed in a path; name the directory itself",
            ),
            rule(
                "self.uri.startsWith('hf://') || !has(self.revision)",
                "model.revision: only hf:// has revisions; remove it",
            ),
            rule(
                "self.uri.startsWith('hf://') || !has(self.credentials)",
                "model.credentials: only hf:// takes a token; remove it",
            ),
        )
    )

    uri: str = Field(
        min_length=8,
        max_length=512,
        description="bundled://name, file:///path (both inside the engine image), pvc://claim/path or hf://org/name.",
    )
    revision: Annotated[str, Field(pattern=r"^[A-Za-z0-9._/-]+$", max_length=128)] | None = Field(
        None, description="Commit, tag or branch on the hub."
    )
    served_name: Annotated[str, Field(pattern=r"^[^\s]+$", max_length=128)] | None = Field(
        None, description="Name that API clients use; the service's own name when unset."
    )
    credentials: Credentials | None = Field(None, description="What the model's source asks for.")
