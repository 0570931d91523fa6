"""Results before their clients have them: checked, kept for equal calls, kept for later, shortened."""
