"""Arguments that may be negative numbers, which look like options."""

from __future__ import annotations

import click


class CommandOfKeys(click.Command):
    """A command whose last argument is a key, which may be a negative number."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line, in which negative numbers that are no option's value are keys.

        Keys of other kinds that begin with `-` stand behind `--`, as with all commands.
        """
        try:
            return super().parse_args(ctx, self._with_numbers_last(args))
        except click.NoSuchOption as error:
            if error.option_name.startswith("--"):
                raise
            told = f"{error.format_message()} A key that begins with - comes last, behind --."
            raise click.UsageError(told, ctx) from error

    def _with_numbers_last(self, args: list[str]) -> list[str]:
        """Return a command line in which negative numbers stand behind `--`."""
        takes_value = {
            name
            for option in self.params
            if isinstance(option, click.Option) and not (option.is_flag or option.count)
            for name in option.opts
        }
        kept: list[str] = []
        numbers: list[str] = []
        left = iter(args)
        for argument in left:
            if argument == "--":
                return [*kept, "--", *numbers, *left]
            if _is_negative_number(argument):
                numbers.append(argument)
                continue
            kept.append(argument)
            if argument in takes_value:
                kept.extend([value for value in [next(left, None)] if value is not None])
        return [*kept, "--", *numbers] if numbers else kept


def _is_negative_number(text: str) -> bool:
    if not text.startswith("-"):
        return False
    try:
        float(text)
    except ValueError:
        return False
    return True
