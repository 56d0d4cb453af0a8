"""Render figures as one self-contained HTML file, and as pictures in SVG: no network, no script. What the pages say
is decided where the figures are made."""
