"""Words of references to distant locations: English. Pure."""

from __future__ import annotations

from typing import Final

from fairlead_operator.publish.words.listed import listed

PLACES: Final = listed("""
    a long way, abbey, abroad, across the atlantic, across the bridge, across the channel, across the glass, across
    the pacific, across the sea, across the water, across the world, across town, addis ababa, adelaide,
    afghanistan, africa*, airport*, alaska, albania, alberta, aleppo, alexandria, algeria, algiers, altitude,
    america*, amsterdam, andes, andorra, angola, ankara, another town, antarctic*, antarctica, antwerp, any news,
    anywhere in the world, archipelago, arctic, are there, argentina, arizona, arkansas, armenia, around the world,
    asia*, at the bottom of, at the front, at the top of, athens, atlanta, atlantis, auckland, aunt in, australia*,
    austria, avalon, awaits, azerbaijan, babylon, back east, backpacking, badlands, baghdad, bahamas, bahrain,
    baldur's gate, bali, balkans, baltic, bangalore, bangkok, bangladesh, barcelona, barracks, barrow*, bavaria, bay
    of, beaches, beijing, beirut, belarus, belfast, belgium, belgrade, belize, bengal, bergen, berlin, best way to
    get, beyond our, beyond the, birmingham, bogota, bolivia, bologna, bombay, bordeaux, border of, border town,
    borderlands, borders, bosnia, boston, botswana, bound for, branch in, brasilia, bratislava, brazil, bridge to,
    brighton, brisbane, bristol, britain, brittany, brooklyn, brother in, brussels, bucharest, budapest, buenos
    aires, bulgaria, burma, burundi, bus to, busan, buses to, by the sea, cairo, calcutta, calgary, california,
    cambodia, camelot, cameroon, camp in, campsite, campus in, canada, canal, canberra, cancun, canyon*, cape,
    capital of, capitals, caracas, caravan*, caravans, caribbean, casablanca, castle in, castle of, castle on,
    catacombs, catalonia, cathedral, caucasus, cave, cavern*, caves, cemetery, chengdu, chennai, chicago, chile,
    christchurch, citadel*, cities, city, cliffs, closest, coast, coastal, coastline, coasts, colleague* in,
    colombia, colonies, colony, colorado, colosseum, comes from, congo, constantinople, consulate, continent*,
    coordinates, copenhagen, cordoba, cornwall, corsica, costa rica, countr*, cousin in, crater, crete, croatia,
    cross the, crossing*, crossroad*, cruise, crypt*, cuba, cuisine, currency, cusco, customers in, cyprus, czech
    republic, dakar, dallas, damascus, data center in, data centre in, days away, days from, days march, days ride,
    days walk, deep in, deep under, delhi, denmark, denver, depot in, desert*, detroit, dialect, direct flight*,
    directions to, distant, district*, do people, dock, docks, down south, downriver, downstream, downtown, dresden,
    drive to, dubai, dublin, duke of, dune*, dungeon*, dusseldorf, earthquake*, east of, eastern, eastward*,
    ecuador, edge of the, edinburgh, egypt, elevation, elsewhere, embassy, emperor of, empire*, en route,
    encampment, end of the world, ends of the, england, entrance to, equator, eritrea, estate, estonia, ethiopia,
    europe*, everest, exchange rate, exit from, expedition*, factory in, famous for, far away, far east, far end of,
    far from, far north, far off, far side, far south, far west, faraway, farmlands, farthest, fastest way to,
    ferries, ferry, feywild, fields of, fiji, finland, fjord*, flight from, flight to, flights from, flights to,
    florida, fly to, flying to, foot of the, foreign, forest*, fort, fortress*, forts, france, frankfurt, friend in,
    friends in, from across the, from china, from turkey, front lines, frontier, fukuoka, furthest, galapagos,
    galaxy, galway, gambia, gardens, garrison, gates, gateway to, gatwick, gaza, gdansk, geneva, genoa, germany,
    getting to, geyser*, ghana, ghent, gibraltar, glacier*, glasgow, goa, going on at, going on in, going on over,
    gondor, gorge, gossip, gothenburg, governor of, graveyard, great wall, greece, greenland, greenwich, grenada,
    guangzhou, guatemala, guildhall, guinea, gulf of, guyana, haiti, halfway across, halls of, hamburg, hamlet,
    hanoi, hanover, happening at, happening in, happening over, harare, harbor*, harbour*, havana, have you heard,
    hawaii, headed for, heading to, headquarters, heart of the, heath, heidelberg, helsinki, hemisphere, high in
    the, high season, highlands, hills of, himalaya*, hiroshima, homeland, honduras, hong kong, horizon, horizons,
    hostel*, hotel*, hour drive, hours away, hours drive, hours from, houston, how are the roads, how are things at,
    how are things in, how bad is the, how big is, how busy is, how cold, how crowded, how dangerous, how deep is,
    how expensive are, how expensive is, how far, how high is, how hot, how is it in, how is life in, how is the
    situation, how many live, how many states, how old is the, how populated, how remote, how safe is, how tall is,
    how things are in, how things stand, how warm, how wide is, how would i get, how would we get, how's life in,
    how's the surf, hungary, hurricane*, ibiza, iceland, idaho, illinois, in bath, in chad, in china, in cologne, in
    georgia, in jordan, in lima, in nice, in phoenix, in the far, in the outer, in the underground, in turkey,
    india, indiana, indonesia, inhabitants, inland, innsbruck, iowa, iran, iraq, ireland, is it safe, is the bridge,
    is the old, is the path, is the road, is the way to, isfahan, islamabad, island*, isle*, israel, istanbul,
    italy, jakarta, jamaica, japan, jeddah, jerusalem, johannesburg, journey*, junction, jungle*, kabul, kansas,
    karachi, kathmandu, kazakhstan, keep of, kenya, kenyan, kerala, kiev, kilimanjaro, kilometers, kilometres, king
    of, kingdom*, kinshasa, know about, known for, korea, kosovo, krakow, kuala lumpur, kuwait, kyiv, kyoto, la paz,
    labyrinth, lagos, lahore, lake*, land beyond, land of, landmarks, lands beyond, lands of, language do, laos,
    lapland, las vegas, latitude, latvia, layover, lead to, leads to, leagues, lebanon, leeds, leipzig, lesotho,
    liberia, libya, lighthouse*, like at the, like down, like in, like out, like over, like up, lisbon, lithuania,
    live in, liverpool, lives in, lives like, living in, ljubljana, local time, locals, located, location of,
    london, longitude, lord of, los angeles, louvre, lowlands, luanda, lucerne, lusaka, luxembourg, lyon, macedonia,
    machu picchu, madagascar, madrid, mainland, majorca, malaga, malawi, malaysia, maldives, mali, mallorca, malta,
    manchester, manhattan, manila, manor, map of, maputo, marrakech, marrakesh, marseille, marsh*, mauritania,
    mauritius, mayor of, maze, meadow*, mecca, medina, mediterranean, melbourne, merchants, metro, metropolis,
    mexico, miami, milan, miles, mines, minneapolis, minnesota, mississippi, missouri, moldova, monaco, monasteries,
    monastery, mongolia, monsoon*, mont blanc, montana, monte carlo, montenegro, montreal, moon of, moor*, moors,
    mordor, morocco, moscow, mound*, mount fuji, mountain*, mouth of the, moved to, mozambique, mumbai, munich,
    museum*, must see, myanmar, nagasaki, nairobi, namibia, nantes, naples, narnia, native to, natives, nearby,
    nearest, nebraska, necropolis, neighboring, neighbouring, nepal, netherlands, nevada, neverwinter, new orleans,
    new york, new zealand, newcastle, newfoundland, news from, news of, next town, niagara, nicaragua, niger,
    nigeria, nightlife, normandy, north of, north pole, northeast*, northern, northward*, northwest*, norway,
    nottingham, nova scotia, nuremberg, oasis, observatory, ocean*, odessa, office in, offshore, okinawa, oklahoma,
    old castle, oman, on mars, on the map, on the way to, on this map, on your map, ontario, orbit, orchard*,
    oregon, osaka, oslo, other office, other side of the, other town, ottawa, out at sea, out there in, out toward*,
    out west, outpost*, outside of town, outside the walls, outskirts, over at the, over in the, over the sea,
    overland, overseas, oxford, pakistan, palace*, palermo, palestine, panama, papua, paraguay, paris, parking in,
    parking like, partner in, partners in, passage to, passes into, passport, patagonia, path to the, peninsula,
    pennsylvania, people of, persia, perth, peru, philadelphia, philippines, pilgrimage, pisa, pittsburgh, plains
    of, planet*, plant in, plateau, poland, polar, polynesia, pompeii, population, port of, portland, porto,
    portugal, potsdam, prague, prairie, provence, province*, puerto rico, pyramid*, pyrenees, qatar, quarry, quarter
    of, quebec, queen of, quickest way to, rainforest*, raining in, rainy season, ravine, realm*, reef*, region*,
    remote area*, remote part*, restaurants in, reykjavik, rhodes, ride to, ridge, riga, rio de janeiro, rivendell,
    river*, riyadh, road from, road to, roads to, romania, rome, rotterdam, route to, routes to, ruins, rumor*,
    rumour*, russia, rwanda, safest way, sahara, saigon, sail to, sailing, sails to, saint petersburg, salvador,
    salzburg, samoa, san diego, san francisco, san marino, santiago, santorini, sao paulo, sapporo, sarajevo,
    sardinia, saskatchewan, saudi arabia, savanna*, scandinavia, scotland, sea of, seaport*, seas, seaside, seattle,
    senegal, seoul, serbia, set out for, settlement*, seville, shadowfell, shanghai, sheffield, shenzhen, sherwood,
    ships, shore*, shortest way, shrine*, siberia, sicily, side of the globe, side of the hill*, side of the sea,
    side of the world, side of town, sierra leone, sights, sightseeing, singapore, sister in, site in, ski resort*,
    skiing, slovakia, slovenia, snow in, snow like, snow on, snowing in, sofia, somalia, someplace, somewhere in,
    source of the, south of, south pole, southampton, southeast*, southern, southward*, southwest*, space station,
    spain, sparta, speak in, specialty of, spire*, spring of, springs, sri lanka, st petersburg, stadium, steppe*,
    still active, still in use, still inhabited, still open, still running, still standing, still under, stockholm,
    stores in, strait, straits, stronghold*, stuttgart, subsidiary, suburb*, subway, sudan, suez, sultan of, summit,
    sun rise, sun set, sunny in, sunrise in, sunset in, supplier in, suppliers in, suriname, swamp*, sweden,
    switzerland, sydney, syria, tahiti, taipei, taiwan, tallinn, tangier, tanzania, tasmania, tbilisi, team in,
    teams in, tehran, tel aviv, temple*, tennessee, territories, territory, texas, thailand, that town, the alps,
    the area around, the bay, the beach in, the border, the capital, the castle, the east, the food in, the food
    like, the front line*, the gulf, the hague, the hills, the moon, the north, the pass, the peaks, the plains, the
    port, the south, the town, the west, thessaloniki, tibet, tide, tides, tijuana, timbuktu, time difference, time
    zone*, times square, to china, to lima, to mars, to turkey, togo, tokyo, tomb, tombs, top of mount, top of the
    hill, toronto, tourism, tourist*, tower, towers, town of, town square, towns, traffic in, traffic like, traffic
    on, trail*, train from, train to, trains from, trains to, transylvania, travel, travelers from, traveling,
    travellers from, travelling, travels, trek*, trieste, trinidad, tripoli, tromso, tromsø, tropic*, troy, tundra,
    tunisia, turin, tuscany, uganda, ukraine, ulaanbaatar, uncle in, under the sea, underdark, underworld, united
    states, university of, up north, upriver, upstream, uruguay, utah, uzbekistan, vale of, valencia, valley*,
    vancouver, vatican, vault*, venezuela, venice, vermont, verona, vienna, vietnam, village*, vilnius, vineyard*,
    virginia, visa, vladivostok, volcano*, voyage*, wales, want to hear about, warehouse in, warsaw, washington,
    wasteland*, wastes, watchtower, waterdeep, waterfall*, way around the, way into, way out of, way out there, way
    through the, waypoint, weather at, weather down, weather in, weather over, weather up, weeks away, wellington,
    west of, western, westward*, wharf, what goes on, what grows, what language, what lies, what lives, what lurks,
    what news, where does, where exactly, whereabouts, wilderness, wilds, wisconsin, woods, word from, wuhan,
    wyoming, yangon, yemen, yokohama, yorkshire, you hear about, zagreb, zambia, zanzibar, ziggurat, zimbabwe,
    zurich
""")
"""Distant locations: kinds of places, ways to them, and names that hardly stand for anything else."""
